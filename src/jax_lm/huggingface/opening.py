"""Which weights a directory holds: safetensors if there are any, else pickled ones."""

from pathlib import Path

from jax_lm.errors import JaxLMError
from jax_lm.huggingface.safetensors_files import SafetensorsFiles
from jax_lm.huggingface.tensor_files import TensorFiles, indexed_files

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLED_FILE = "pytorch_model.bin"
PICKLED_INDEX_FILE = "pytorch_model.bin.index.json"


def open_tensors(directory: Path) -> TensorFiles:
    """The tensors of a directory.

    Raises:
        JaxLMError: there are none, or files are missing or damaged; all of them are named.
    """
    if (directory / SINGLE_FILE).is_file():
        return SafetensorsFiles(directory, [directory / SINGLE_FILE])
    if (directory / INDEX_FILE).is_file():
        return SafetensorsFiles(directory, indexed_files(directory / INDEX_FILE))
    from jax_lm.huggingface.pickled_files import PickledFiles

    if (directory / PICKLED_FILE).is_file():
        return PickledFiles(directory, [directory / PICKLED_FILE])
    if (directory / PICKLED_INDEX_FILE).is_file():
        return PickledFiles(directory, indexed_files(directory / PICKLED_INDEX_FILE))
    raise JaxLMError(
        f"{directory}: no {SINGLE_FILE}, {INDEX_FILE}, {PICKLED_FILE} or {PICKLED_INDEX_FILE}: "
        "there are no weights"
    )
