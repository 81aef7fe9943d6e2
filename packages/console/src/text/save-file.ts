/** Hands a file to the browser's downloads. */
export function saveFile(name: string, parts: BlobPart[], type: string): void {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The download has begun by the next turn; the data may go.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
