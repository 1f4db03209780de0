"""Conversations: records of messages -> weighted segments, through a chat template."""
