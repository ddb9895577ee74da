// How Sphinx's search orders what it found. A page whose title begins with what was typed comes first, then a page whose title
// has all of its words; pages of the reference come last, because they have every word.
var Scorer = {
  score: ([page, title, anchor, , score]) => {
    const words = (text) => text.toLowerCase().split(/[^\p{L}\p{N}_-]+/u).filter(Boolean);
    const typed = words(new URLSearchParams(window.location.search).get("q") || "");
    const own = words(title);
    const first = typed.length && typed.every((word, i) => (own[i] || "").startsWith(word));
    const all = typed.length && typed.every((word) => own.some((other) => other.startsWith(word)));
    const boost = anchor ? 0 : first ? 60 : all ? 30 : 0;
    return score + boost - (page.startsWith("reference/") ? 20 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
