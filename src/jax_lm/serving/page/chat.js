"use strict";
// The conversation lives in `messages` and nowhere else: not in cookies, not on the server.

const part = (id) => document.getElementById(id);
const conversation = part("conversation"), question = part("question"), notice = part("notice");
const NUMBERS = { "temperature": "temperature", "top-p": "top_p", "max-tokens": "max_tokens",
  "repetition-penalty": "repetition_penalty", "seed": "seed" };

let messages = [];
let running = null;

function headers() {
  const token = part("token").value.trim();
  return token ? { "Authorization": `Bearer ${token}` } : {};
}

function body() {
  const system = part("system").value.trim();
  const asked = { stream: true, forget_oldest: true, stream_options: { include_usage: true } };
  for (const [id, name] of Object.entries(NUMBERS)) {
    if (part(id).value !== "") asked[name] = Number(part(id).value);
  }
  asked.messages = system ? [{ role: "system", content: system }, ...messages] : messages;
  return JSON.stringify(asked);
}

function bubble(role, text) {
  part("welcome").hidden = true;
  const article = document.createElement("article");
  article.className = role;
  for (const [tag, name, words] of [["h2", "who", role === "user" ? "You" : "Model"],
    ["p", "text", text], ["p", "note", ""]]) {
    const element = document.createElement(tag);
    element.className = name;
    element.textContent = words;
    article.append(element);
  }
  conversation.append(article);
  conversation.scrollTop = conversation.scrollHeight;
  return article;
}

function grow(article, text) {
  const atEnd = conversation.scrollHeight - conversation.scrollTop - conversation.clientHeight < 60;
  article.querySelector(".text").textContent = text;
  // Who has scrolled up to read is left where they are.
  if (atEnd) conversation.scrollTop = conversation.scrollHeight;
}

async function sentenceOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

async function answer() {
  const article = bubble("assistant", "");
  const note = article.querySelector(".note");
  const began = performance.now();
  let text = "", finish = null, tokens = 0, forgotten = 0;
  article.classList.add("writing");
  running = new AbortController();
  busy(true);
  try {
    const response = await fetch("/v1/chat/completions", { method: "POST", body: body(),
      signal: running.signal, headers: { ...headers(), "Content-Type": "application/json" } });
    if (!response.ok) throw new Error(await sentenceOf(response));
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      forgotten = event.num_forgotten || 0;
      if (event.usage) tokens = event.usage.completion_tokens;
      const choice = event.choices[0];
      if (!choice) continue;
      text += choice.delta.content || "";
      finish = choice.finish_reason || finish;
      grow(article, text);
    }
    const seconds = (performance.now() - began) / 1000;
    note.textContent = [finish === "length" ? "cut off: no room for more" : "",
      `${tokens} tokens, ${(tokens / seconds).toFixed(0)} a second`,
      forgotten ? `the first ${forgotten} messages no longer fit` : ""].filter(Boolean).join(" · ");
  } catch (error) {
    if (error.name === "AbortError") note.textContent = "stopped";
    else tell(error.message);
  } finally {
    grow(article, text);
    article.classList.remove("writing");
    running = null;
    busy(false);
  }
  return { article, text };
}

async function send() {
  const text = question.value.trim();
  if (!text || running) return;
  tell("");
  const mine = bubble("user", text);
  messages.push({ role: "user", content: text });
  question.value = "";
  fit();
  const conversationThen = messages;
  const { article, text: said } = await answer();
  if (conversationThen !== messages) return;
  if (said) {
    messages.push({ role: "assistant", content: said });
  } else if (!article.querySelector(".note").textContent || notice.textContent) {
    // Nothing came: the message goes back to where it can be sent again.
    messages.pop();
    mine.remove();
    article.remove();
    if (!question.value) question.value = text;
    fit();
  } else {
    messages.pop();
  }
  question.focus();
}

function busy(now) {
  part("send").hidden = now;
  part("stop").hidden = !now;
}

function tell(sentence) {
  notice.textContent = sentence;
}

function fit() {
  question.style.height = "auto";
  question.style.height = `${question.scrollHeight + 2}px`;
}

function stop() {
  if (running) running.abort();
}

function begin() {
  stop();
  messages = [];
  conversation.querySelectorAll("article").forEach((article) => article.remove());
  part("welcome").hidden = false;
  tell("");
  question.focus();
}

function lastQuestion() {
  const mine = messages.filter((one) => one.role === "user");
  return mine.length ? mine[mine.length - 1].content : "";
}

async function introduce() {
  try {
    const response = await fetch("/v1/models", { headers: headers() });
    if (response.status === 401) {
      showSettings(true);
      tell("This server wants a token: write it into the settings.");
    } else if (response.ok) {
      const model = (await response.json()).data[0];
      part("model").textContent = model.id;
      document.title = `${model.id} · jax-lm`;
      tell("");
    } else {
      tell(await sentenceOf(response));
    }
  } catch {
    tell("The server cannot be reached.");
  }
}

function showSettings(show) {
  part("settings").hidden = !show;
  part("show-settings").setAttribute("aria-expanded", String(show));
}

part("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
part("settings").addEventListener("submit", (event) => event.preventDefault());
question.addEventListener("input", fit);
question.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    send();
  } else if (event.key === "ArrowUp" && !question.value) {
    event.preventDefault();
    question.value = lastQuestion();
    fit();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
part("stop").addEventListener("click", stop);
part("new").addEventListener("click", begin);
part("show-settings").addEventListener("click", () => showSettings(part("settings").hidden));
part("token").addEventListener("change", introduce);
introduce();
