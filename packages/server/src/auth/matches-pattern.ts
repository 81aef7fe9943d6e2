/**
 * Whether a name fits a pattern in which `*` stands for any run of characters and `?` for one. Case does not
 * count: two tools whose names differ by case only are one tool.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  return matchesExactly(pattern.toLowerCase(), name.toLowerCase());
}

/** The same where case counts, as with names that are given elsewhere: there, `get` and `GET` may be two tools. */
export function matchesExactly(pattern: string, text: string): boolean {
  let at = 0;
  let position = 0;
  let star = -1;
  let resume = 0;
  while (position < text.length) {
    if (pattern[at] === "*") {
      star = at++;
      resume = position;
    } else if (at < pattern.length && (pattern[at] === "?" || pattern[at] === text[position])) {
      at++;
      position++;
    } else if (star !== -1) {
      // The last star takes one character more. Earlier ones never need to, so this is never exponential.
      at = star + 1;
      position = ++resume;
    } else {
      return false;
    }
  }
  while (pattern[at] === "*") at++;
  return at === pattern.length;
}
