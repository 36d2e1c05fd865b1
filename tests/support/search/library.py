"""A few passages with unambiguous answers, in several languages."""

from tests.support.corpora.passage import Passage

LIBRARY = [
    Passage(f"library-{number}", title, text, metadata={"kind": kind, "year": year})
    for number, (title, text, kind, year) in enumerate(
        [
            (
                "Nile",
                "The Nile is often called the longest river of the world; it flows north through"
                " eleven countries of Africa and ends in a wide delta.",
                "geography",
                1900,
            ),
            (
                "Great Western",
                "She was the first of the steam ships that were built to cross the Atlantic"
                " regularly, with paddle wheels and an oak hull.",
                "ship",
                1838,
            ),
            (
                "Hummingbird",
                "A hummingbird hovers before flowers and beats its wings up to eighty times a"
                " second; its heart is the quickest of any bird.",
                "nature",
                1758,
            ),
            (
                "Photosynthesis",
                "Plants turn light, water and carbon dioxide into sugar and oxygen inside their"
                " chloroplasts.",
                "nature",
                1893,
            ),
            (
                "Binary search",
                "An algorithm that halves a sorted array again and again until the wanted value"
                " is found, in logarithmic time.",
                "computing",
                1946,
            ),
            (
                "Sourdough",
                "Bread that rises by wild yeast and lactic bacteria instead of bought yeast; it"
                " takes a day and keeps for a week.",
                "food",
                1849,
            ),
            ("长城", "长城是中国古代的军事防御工程，全长超过两万公里。", "geography", -700),  # noqa: RUF001 - it is Chinese or Greek
            ("Straße", "Die Romantische Straße führt von Würzburg nach Füssen.", "geography", 1950),
            ("東京タワー", "東京タワーは高さ333メートルの電波塔である。", "building", 1958),
            ("Ναύπλιο", "Το Ναύπλιο ήταν η πρώτη πρωτεύουσα της Ελλάδας.", "geography", 1829),  # noqa: RUF001 - it is Chinese or Greek
            ("Emoji 🦜", "The parrot emoji 🦜 was added to Unicode in 2018.", "computing", 2018),
            ("Rosetta", 'A stone with "three scripts"\nthat opened\tthe hieroglyphs.', "art", -196),
        ]
    )
]
