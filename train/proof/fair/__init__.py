"""PiCA put to a fair test: words are kept, negatives take a name of equal recency, the targets come from forks."""
