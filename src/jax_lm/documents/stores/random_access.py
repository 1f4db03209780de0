"""What any source is asked for that a store answers without reading on."""

from typing import TypeGuard

from jax_lm.documents.base import DocumentSource, DocumentStore
from jax_lm.documents.showing import document_at
from jax_lm.errors import JaxLMError
from jax_lm.types import Document


def is_store(source: DocumentSource) -> TypeGuard[DocumentStore]:
    """Whether a source gives any document by its number."""
    return hasattr(source, "read_batch") and hasattr(source, "__len__")


def any_document_at(source: DocumentSource, index: int) -> Document:
    """Document ``index``, counting from 0; a store finds it at once.

    Raises:
        JaxLMError: the source has fewer documents.
    """
    if not is_store(source) or index < 0:
        return document_at(source, index)
    if index >= len(source):
        raise JaxLMError(
            f"{source.name}: there is no document {index}; it holds {len(source):,} documents, "
            "counted from 0"
        )
    return source[index]
