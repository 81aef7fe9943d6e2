export interface DataUrl {
  readonly mime: string;
  readonly data: string;
}

const shape = /^data:([^;,]*);base64,/;

export function toDataUrl(mime: string, data: string): string {
  return `data:${mime};base64,${data}`;
}

/** The parts of a base64 `data:` URL without parameters; nothing for any other address. */
export function parseDataUrl(url: string): DataUrl | undefined {
  const match = shape.exec(url);
  return match === null ? undefined : { mime: match[1] ?? "", data: url.slice(match[0].length) };
}
