/* How the search box ranks pages. Sphinx asks for pages that have all words, and lets the best word decide. Here no word
   is required: each counts, a rare one more than a frequent one, in a title more than in the text, and in the text of a
   short page more than in that of a page with thousands of words. */
Search.performTermsSearch = (wanted, excluded) => {
  const { terms, titleterms, docnames, titles, filenames } = Search._index;
  const pages = (found) => (found === undefined ? [] : [found].flat());
  const having = (index, word) => {
    if (Object.hasOwn(index, word)) return new Set(pages(index[word]));
    const longer = Object.keys(index).filter((term) => word.length > 2 && term.includes(word));
    return new Set(longer.flatMap((term) => pages(index[term])));
  };
  const words = docnames.map(() => 0);
  Object.values(terms).forEach((found) => pages(found).forEach((page) => words[page]++));
  const usual = words.reduce((total, each) => total + each, 0) / words.length;

  const scores = docnames.map(() => 0);
  wanted.forEach((word) => {
    const [inTitle, inText] = [having(titleterms, word), having(terms, word)];
    const either = new Set([...inTitle, ...inText]);
    const rarity = Math.log(1 + docnames.length / (1 + either.size));
    either.forEach((page) => {
      const text = inText.has(page) ? 2 / (1 + words[page] / usual) : 0;
      scores[page] += 2 * rarity * (text + (inTitle.has(page) ? 2 : 0));
    });
  });
  excluded.forEach((word) => [titleterms, terms].forEach((index) => having(index, word).forEach((page) => (scores[page] = 0))));

  const enough = Math.max(...scores) / 2;
  const found = [...scores.keys()].filter((page) => scores[page] > 0 && scores[page] >= enough);
  return found.map((page) => [docnames[page], titles[page], "", null, scores[page], filenames[page], SearchResultKind.text]);
};
