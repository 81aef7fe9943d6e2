/** Rows of a CSV text by the names in its first line, in lower case; quotes as in RFC 4180. Empty fields are left out. */
export function parseCsv(text: string): Record<string, string>[] {
  const plain = text.replace(/^\uFEFF/, "");
  const [head = [], ...rows] = splitRows(plain, separatorOf(plain));
  return rows
    .filter((row) => row.length > 1 || row[0] !== "")
    .map((row) =>
      Object.fromEntries(
        head.flatMap((name, at) => {
          const value = row[at];
          return value === undefined || value === "" || value === "NULL" || value === "\\N"
            ? []
            : [[name.trim().toLowerCase(), value]];
        }),
      ),
    );
}

/** Spreadsheets of many countries write semicolons. */
function separatorOf(text: string): string {
  const head = text.split("\n", 1)[0] ?? "";
  return head.includes(",") ? "," : (/[;\t]/.exec(head)?.[0] ?? ",");
}

function splitRows(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let isQuoted = false;
  const endRow = () => {
    rows.push([...row, field]);
    row = [];
    field = "";
  };
  for (let at = 0; at < text.length; at++) {
    const sign = text[at]!;
    if (isQuoted) {
      if (sign !== '"') field += sign;
      else if (text[at + 1] === '"') field += text[++at]!;
      else isQuoted = false;
    } else if (sign === '"' && field === "") isQuoted = true;
    else if (sign === separator) {
      row.push(field);
      field = "";
    } else if (sign === "\n") endRow();
    else if (sign !== "\r" || text[at + 1] !== "\n") field += sign;
  }
  if (isQuoted) throw new Error("The CSV has a quote that is not closed.");
  if (field !== "" || row.length > 0) endRow();
  return rows;
}
