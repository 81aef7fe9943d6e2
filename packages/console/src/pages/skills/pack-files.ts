/** Files in the form that the server takes: texts as they are, and what is none as Base64. */
export type PackedFiles = Readonly<Record<string, string | { readonly base64: string }>>;

export type Packed = { readonly files: PackedFiles } | { readonly archive: string };

/** What other programs leave in folders and nobody wants to import. */
const skipped = /(^|\/)(\.git|node_modules|__pycache__)\/|(^|\/)\.DS_Store$/;

/** What somebody chose: one archive, a folder, or single files. Of a folder, paths begin with its name. */
export async function packFiles(chosen: readonly File[]): Promise<Packed> {
  const [first] = chosen;
  if (chosen.length === 1 && first !== undefined && /\.zip$/i.test(first.name)) {
    return { archive: toBase64(new Uint8Array(await first.arrayBuffer())) };
  }
  const files: Record<string, string | { base64: string }> = {};
  for (const file of chosen) {
    const path = file.webkitRelativePath || file.name;
    if (!skipped.test(path)) files[path] = contentOf(new Uint8Array(await file.arrayBuffer()));
  }
  return { files };
}

function contentOf(bytes: Uint8Array): string | { base64: string } {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { base64: toBase64(bytes) };
  }
}

/** In pieces: a call cannot have as many arguments as a file has bytes. */
function toBase64(bytes: Uint8Array): string {
  const PIECE = 0x8000;
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  }
  return btoa(text);
}
