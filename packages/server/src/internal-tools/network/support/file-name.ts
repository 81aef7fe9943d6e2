/** Longest name that every common file system takes, counted in bytes, with room for a temporary suffix. */
const LONGEST = 200;

/** Names that Windows keeps for devices, whatever their ending. */
const deviceName = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/** The name for a downloaded file: what the server calls it, or the last part of its address. Never a path. */
export function downloadName(disposition: string | undefined, url: string): string {
  const fromServer = disposition === undefined ? undefined : dispositionName(disposition);
  return safeName(fromServer ?? "") ?? safeName(lastSegment(url)) ?? "download";
}

function dispositionName(header: string): string | undefined {
  const extended = /filename\*\s*=\s*"?([\w-]+)'[^']*'([^;"\s]+)/i.exec(header);
  if (extended !== null) {
    const decoded = decodePercent(extended[2]!, extended[1]!);
    if (decoded !== undefined) return decoded;
  }
  const quoted = /filename\s*=\s*"((?:[^"\\]|\\.)*)"/i.exec(header)?.[1]?.replace(/\\(.)/g, "$1");
  const plain = quoted ?? /filename\s*=\s*([^;"\s]+)/i.exec(header)?.[1];
  // Header bytes arrive as latin1; servers send UTF-8 in them.
  return plain === undefined ? undefined : Buffer.from(plain, "latin1").toString("utf8");
}

function lastSegment(url: string): string {
  const segment = new URL(url).pathname.split("/").at(-1) ?? "";
  return decodePercent(segment, "utf-8") ?? segment;
}

function decodePercent(text: string, charset: string): string | undefined {
  try {
    const bytes = text.replace(/%([\da-f]{2})/gi, (_whole, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return new TextDecoder(charset, { fatal: true }).decode(Buffer.from(bytes, "latin1"));
  } catch {
    return undefined;
  }
}

/** One path segment that is legal and visible everywhere, or nothing when no character of it is left. */
function safeName(text: string): string | undefined {
  const segment = text.split(/[/\\]/).at(-1) ?? "";
  const clean = segment
    .normalize("NFC")
    // Control and formatting characters could hide the true ending; the others are illegal on some systems.
    .replace(/[\p{Cc}\p{Cf}<>:"|?*]/gu, "_")
    .replace(/^[\s.]+|[\s.]+$/g, "");
  if (clean === "" || /^_+$/.test(clean)) return undefined;
  return shorten(deviceName.test(clean) ? `_${clean}` : clean);
}

function shorten(name: string): string {
  if (Buffer.byteLength(name) <= LONGEST) return name;
  const ending = /\.[\w-]{1,16}$/.exec(name)?.[0] ?? "";
  let stem = [...name.slice(0, name.length - ending.length)];
  while (Buffer.byteLength(stem.join("") + ending) > LONGEST) stem = stem.slice(0, -1);
  return stem.join("") + ending;
}
