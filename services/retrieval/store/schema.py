"""The tantivy schema, its entries, and metadata filters."""

import tantivy

from services.contracts.retrieval.search import Filter
from services.retrieval.corpus.document import Document
from services.retrieval.store.metadata import (
    Scalar,
    bounded_term,
    metadata_term,
    metadata_terms,
    number_field,
    sortable,
)
from services.retrieval.store.tokens import Analyzer

NUMBER = "number"
ID = "id"
TOKENS = "tokens"
TERMS = "terms"
NUMBERS = "numbers"


def new_schema() -> tantivy.Schema:
    """Build the schema of a text index."""
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(NUMBER, indexed=True, fast=True)
    builder.add_text_field(ID, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(TOKENS, tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field(TERMS, tokenizer_name="raw", index_option="basic")
    builder.add_json_field(NUMBERS, tokenizer_name="raw", index_option="basic", fast=True)
    return builder.build()


def text_entry(number: int, document: Document, analyzer: Analyzer | None) -> tantivy.Document:
    """The entry of a passage; without an analyzer its words are not searchable."""
    entry = tantivy.Document()
    entry.add_unsigned(NUMBER, number)
    entry.add_text(ID, bounded_term(document.id))
    if analyzer is not None:
        entry.add_text(TOKENS, " ".join(analyzer.tokens(document.contents)))
    if document.metadata:
        facts = metadata_terms(document.metadata)
        for term in facts.terms:
            entry.add_text(TERMS, term)
        if facts.numbers:
            entry.add_json(NUMBERS, facts.numbers)
    return entry


_LEAST = -(2**63)
_MOST = 2**63 - 1


def filter_query(index: tantivy.Index, conditions: Filter) -> tantivy.Query | None:
    """A query for the passages that satisfy all conditions; None without conditions."""
    parts = [_any(index, field, [value]) for field, value in conditions.equals.items()]
    parts += [_any(index, field, values) for field, values in conditions.any_of.items()]
    parts += [
        _between(index, field, conditions.least.get(field), conditions.most.get(field))
        for field in {**conditions.least, **conditions.most}
    ]
    if not parts:
        return None
    both = tantivy.Query.boolean_query([(tantivy.Occur.Must, part) for part in parts])
    return tantivy.Query.const_score_query(both, 0.0)


def _any(index: tantivy.Index, field: str, values: list[Scalar]) -> tantivy.Query:
    terms = {metadata_term(field, value) for value in values}
    return tantivy.Query.boolean_query(
        [
            (
                tantivy.Occur.Should,
                tantivy.Query.term_query(index.schema, TERMS, term, index_option="basic"),
            )
            for term in sorted(terms)
        ]
    )


def _between(
    index: tantivy.Index, field: str, least: float | None, most: float | None
) -> tantivy.Query:
    first = _LEAST if least is None else _bound(least)
    last = _MOST if most is None else _bound(most)
    return index.parse_query(f"{NUMBERS}.{number_field(field)}:[{first} TO {last}]", [TOKENS])


def _bound(value: float) -> int:
    """The `sortable` bound; integers beyond the float range are clamped."""
    number = sortable(value)
    if number is None:
        return _MOST if value > 0 else _LEAST
    return number
