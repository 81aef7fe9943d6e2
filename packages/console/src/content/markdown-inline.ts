/** A part of a line of Markdown. What has parts of its own may hold further marks. */
export type Inline =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "strong" | "emphasis" | "strike"; readonly parts: readonly Inline[] }
  | { readonly kind: "link"; readonly parts: readonly Inline[]; readonly href: string };

const image = /!\[([^[\]]*)\]\(\s*([^\s()]*(?:\([^\s()]*\)[^\s()]*)*)(?:\s+"[^"]*")?\s*\)/y;
/** Its label may hold a picture, as badges do, and its address one pair of brackets. */
const link =
  /\[((?:!\[[^[\]]*\]\([^()\s]*\)|[^[\]])*)\]\(\s*<?([^\s<>()]*(?:\([^\s()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/y;
const bracketed = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
/** Ends where a sentence around it goes on, in Chinese too. */
const address = /https?:\/\/[^\s<>"'`*，。；：！？、（）「」『』《》【】]+/y;
const special = /[\\`*_~![<h]/g;
const escapable = /[!-/:-@[-`{-~]/;
const wordLike = /[\p{L}\p{N}_]/u;

/** Reads the marks of a text. Every search ends at the next mark of its kind, so that it takes no longer than the text. */
export function parseInline(text: string): Inline[] {
  const parts: Inline[] = [];
  let plain = "";
  let at = 0;
  const add = (part: Inline, end: number) => {
    if (plain !== "") parts.push({ kind: "text", text: plain });
    plain = "";
    parts.push(part);
    at = end;
  };
  while (at < text.length) {
    special.lastIndex = at;
    const next = special.exec(text)?.index ?? text.length;
    plain += text.slice(at, next);
    at = next;
    if (at === text.length) break;
    const found = partAt(text, at);
    if (found !== undefined) add(found.part, found.end);
    else if (text[at] === "\\" && escapable.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else {
      // A run of one sign that means nothing here means nothing as a whole.
      const run = runAt(text, at);
      plain += text.slice(at, at + run);
      at += run;
    }
  }
  if (plain !== "") parts.push({ kind: "text", text: plain });
  return parts;
}

/** A link may lead to a page or a mailbox; anything that would run something is none. */
export function isSafeLink(href: string): boolean {
  return /^(https?:|mailto:)/i.test(href);
}

interface Found {
  readonly part: Inline;
  readonly end: number;
}

function partAt(text: string, at: number): Found | undefined {
  switch (text[at]) {
    case "`":
      return codeAt(text, at);
    case "*":
    case "_":
    case "~":
      return markedAt(text, at);
    case "!":
      return imageAt(text, at);
    case "[":
      return linkAt(text, at);
    case "<":
      return plainLink(matchAt(bracketed, text, at), at);
    case "h":
      return /\w/.test(text[at - 1] ?? "") ? undefined : addressAt(text, at);
    default:
      return undefined;
  }
}

/** As many backticks end it as began it. */
function codeAt(text: string, at: number): Found | undefined {
  const fence = "`".repeat(runAt(text, at));
  let end = at + fence.length;
  while (true) {
    end = text.indexOf(fence, end);
    if (end < 0) return undefined;
    const run = runAt(text, end);
    if (run === fence.length) break;
    end += run;
  }
  const inner = text.slice(at + fence.length, end);
  const isPadded = /^ .*[^ ].* $|^ `|` $/s.test(inner);
  return { part: { kind: "code", text: isPadded ? inner.trim() : inner }, end: end + fence.length };
}

/** `*one*`, `**two**`, `***three***`, the same with `_`, and `~~struck~~`. The next run of the same length ends it. */
function markedAt(text: string, at: number): Found | undefined {
  const sign = text[at]!;
  const length = runAt(text, at);
  const start = at + length;
  if (length > 3 || (sign === "~" && length > 2) || /\s/.test(text[start] ?? " ")) return undefined;
  const isWithinWord = (place: number) => sign === "_" && wordLike.test(text[place] ?? "");
  if (isWithinWord(at - 1)) return undefined;
  const end = endOfMark(text, start, sign, length);
  if (end === undefined || /\s/.test(text[end - 1]!) || isWithinWord(end + length)) return undefined;
  const inner = parseInline(text.slice(start, end));
  return { part: marked(sign, length, inner), end: end + length };
}

/** Runs of another length in between are marks of their own, which the inside may hold. */
function endOfMark(text: string, start: number, sign: string, length: number): number | undefined {
  let isWithinOther = false;
  for (let at = text.indexOf(sign, start); at >= 0; at = text.indexOf(sign, at)) {
    const run = runAt(text, at);
    if (run === length) return at;
    // `**bold *slanted***`: the last of a longer run is what ends this one.
    if (run > length && isWithinOther) return at + run - length;
    isWithinOther = !isWithinOther;
    at += run;
    if (at - start > LONGEST_MARKED) return undefined;
  }
  return undefined;
}

/** Nobody emphasises more than a page; it bounds the search for an end that is not there. */
const LONGEST_MARKED = 2_000;

function marked(sign: string, length: number, parts: readonly Inline[]): Inline {
  if (sign === "~") return { kind: "strike", parts };
  if (length === 1) return { kind: "emphasis", parts };
  return { kind: "strong", parts: length === 2 ? parts : [{ kind: "emphasis", parts }] };
}

/** A picture would be fetched from elsewhere, so it is a link to it; one that leads nowhere is what it is called. */
function imageAt(text: string, at: number): Found | undefined {
  const match = matchAt(image, text, at);
  if (match === undefined) return undefined;
  const [whole, label = "", href = ""] = match;
  const name: Inline = { kind: "text", text: label || href.slice(0, 80) };
  const part: Inline = isSafeLink(href) ? { kind: "link", parts: [name], href } : name;
  return { part, end: at + whole.length };
}

function linkAt(text: string, at: number): Found | undefined {
  const match = matchAt(link, text, at);
  if (match === undefined) return undefined;
  const [whole, label = "", href = ""] = match;
  const end = at + whole.length;
  if (!isSafeLink(href)) return { part: { kind: "text", text: whole }, end };
  const parts = withoutLinks(parseInline(label === "" ? href : label));
  return { part: { kind: "link", parts, href }, end };
}

function addressAt(text: string, at: number): Found | undefined {
  const match = matchAt(address, text, at);
  if (match === undefined) return undefined;
  let [href] = match;
  // What ends the sentence around it is not part of it, nor is a bracket that was opened before it.
  while (/[.,;:!?\])}~_|]$/.test(href) && !(href.endsWith(")") && isBalanced(href))) href = href.slice(0, -1);
  return /:\/\/./.test(href) ? plainLink([href, href], at) : undefined;
}

function plainLink(match: readonly string[] | undefined, at: number): Found | undefined {
  if (match === undefined) return undefined;
  const [whole = "", href = ""] = match;
  const text = href.replace(/^mailto:/i, "");
  return { part: { kind: "link", parts: [{ kind: "text", text }], href }, end: at + whole.length };
}

function isBalanced(text: string): boolean {
  return text.split("(").length >= text.split(")").length;
}

/** A link has no link inside. */
function withoutLinks(parts: readonly Inline[]): Inline[] {
  return parts.flatMap((part) => {
    if (part.kind === "link") return withoutLinks(part.parts);
    return [
      part.kind === "text" || part.kind === "code" ? part : { ...part, parts: withoutLinks(part.parts) },
    ];
  });
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

function runAt(text: string, at: number): number {
  const sign = text[at];
  let end = at + 1;
  // Brackets and letters are read one by one: the next one may begin something.
  if (!/[`*_~]/.test(sign ?? "")) return 1;
  while (text[end] === sign) end++;
  return end - at;
}
