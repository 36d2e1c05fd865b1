"""The fields that tantivy keeps of each passage; the passages themselves are kept beside it."""

import tantivy

from services.retrieval.corpus.document import Document
from services.retrieval.store.facts import bounded_term, facts_of
from services.retrieval.store.tokens import Analysis

NUMBER = "number"
ID = "id"
TOKENS = "tokens"
TERMS = "terms"
NUMBERS = "numbers"


def new_schema() -> tantivy.Schema:
    """The schema of a text index."""
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(NUMBER, indexed=True, fast=True)
    builder.add_text_field(ID, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(TOKENS, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field(TERMS, tokenizer_name="raw", index_option="basic")
    builder.add_json_field(NUMBERS, tokenizer_name="raw", index_option="basic", fast=True)
    return builder.build()


def text_entry(number: int, document: Document, analysis: Analysis | None) -> tantivy.Document:
    """What is kept of a passage; without an analysis it cannot be found by its words."""
    entry = tantivy.Document()
    entry.add_unsigned(NUMBER, number)
    entry.add_text(ID, bounded_term(document.id))
    if analysis is not None:
        entry.add_text(TOKENS, " ".join(analysis.tokens(document.contents)))
    if document.metadata:
        facts = facts_of(document.metadata)
        for term in facts.terms:
            entry.add_text(TERMS, term)
        if facts.numbers:
            entry.add_json(NUMBERS, facts.numbers)
    return entry
