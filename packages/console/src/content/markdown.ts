/** A text in Markdown, as the parts that a page is made of. Only what tools really write is known; the rest stays text. */
export type MarkdownBlock =
  | { readonly kind: "heading"; readonly level: number; readonly text: Inline[] }
  | { readonly kind: "paragraph"; readonly text: Inline[] }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "list"; readonly ordered: boolean; readonly items: Inline[][] }
  | { readonly kind: "quote"; readonly text: Inline[] }
  | { readonly kind: "table"; readonly head: Inline[][]; readonly rows: Inline[][][] }
  | { readonly kind: "rule" };

export type Inline =
  | { readonly kind: "text" | "strong" | "emphasis" | "code"; readonly text: string }
  | { readonly kind: "link"; readonly text: string; readonly href: string };

const signs = [
  /^#{1,6} \S/m,
  /^\s*[-*] \S/m,
  /^\s*\d+\. \S/m,
  /^```/m,
  /\*\*[^*\n]+\*\*/,
  /^\|.+\|\s*$/m,
  /\[[^\]\n]+\]\(https?:/,
];

/** Whether a text was most likely written as Markdown. */
export function looksLikeMarkdown(text: string): boolean {
  const head = text.slice(0, 4_000);
  return signs.filter((sign) => sign.test(head)).length >= 2 || /^#{1,3} \S.*\n/.test(head);
}

export function parseMarkdown(text: string): MarkdownBlock[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks: MarkdownBlock[] = [];
  let at = 0;
  const take = (matches: (line: string) => boolean) => {
    const start = at;
    while (at < lines.length && matches(lines[at]!)) at++;
    return lines.slice(start, at);
  };
  while (at < lines.length) {
    const line = lines[at]!;
    const heading = /^(#{1,6}) (.*)$/.exec(line);
    if (line.trim() === "") at++;
    else if (/^\s*```/.test(line)) {
      at++;
      blocks.push({ kind: "code", text: take((inner) => !/^\s*```/.test(inner)).join("\n") });
      at++;
    } else if (heading) {
      at++;
      blocks.push({ kind: "heading", level: heading[1]!.length, text: inline(heading[2]!) });
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      at++;
      blocks.push({ kind: "rule" });
    } else if (bullet.test(line) || numbered.test(line)) {
      const sign = bullet.test(line) ? bullet : numbered;
      const items = take((inner) => sign.test(inner)).map((item) => inline(item.replace(sign, "")));
      blocks.push({ kind: "list", ordered: sign === numbered, items });
    } else if (line.startsWith(">")) {
      const quoted = take((inner) => inner.startsWith(">")).map((inner) => inner.replace(/^> ?/, ""));
      blocks.push({ kind: "quote", text: inline(quoted.join("\n")) });
    } else if (
      line.includes("|") &&
      /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1] ?? "") &&
      lines[at + 1]!.includes("|")
    ) {
      const [head, , ...rows] = take((inner) => inner.includes("|"));
      blocks.push({ kind: "table", head: cells(head!), rows: rows.map(cells) });
    } else {
      // The line itself is taken whatever it looks like, so that the reader always moves on.
      const first = lines[at++]!;
      blocks.push({ kind: "paragraph", text: inline([first, ...take(isPlain)].join("\n")) });
    }
  }
  return blocks;
}

const bullet = /^\s*[-*+] +/;
const numbered = /^\s*\d+[.)] +/;

function isPlain(line: string): boolean {
  return (
    line.trim() !== "" && !/^(#{1,6} |>|\s*```)/.test(line) && !bullet.test(line) && !numbered.test(line)
  );
}

function cells(line: string): Inline[][] {
  return line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => inline(cell.trim()));
}

const marks = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|(\*[^*\s][^*\n]*\*)|\[([^\]\n]+)\]\(([^)\s]+)\)/g;

function inline(text: string): Inline[] {
  const parts: Inline[] = [];
  let last = 0;
  for (const match of text.matchAll(marks)) {
    if (match.index > last) parts.push({ kind: "text", text: text.slice(last, match.index) });
    last = match.index + match[0].length;
    const [whole, code, strong, emphasis, label, href] = match;
    if (code !== undefined) parts.push({ kind: "code", text: code.slice(1, -1) });
    else if (strong !== undefined) parts.push({ kind: "strong", text: strong.slice(2, -2) });
    else if (emphasis !== undefined) parts.push({ kind: "emphasis", text: emphasis.slice(1, -1) });
    else if (href !== undefined && isSafeLink(href)) parts.push({ kind: "link", text: label ?? href, href });
    else parts.push({ kind: "text", text: whole });
  }
  if (last < text.length) parts.push({ kind: "text", text: text.slice(last) });
  return parts;
}

/** A link may lead to a page or a mailbox; anything that would run something is none. */
export function isSafeLink(href: string): boolean {
  return /^(https?:|mailto:)/i.test(href);
}
