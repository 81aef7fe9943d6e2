// Puts a compressed twin beside every text file of the build, so that the server never compresses anything itself.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { constants, gzipSync } from "node:zlib";

const dist = join(import.meta.dirname, "..", "dist");
const worthIt = /\.(js|css|html|svg|json)$/;

for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !worthIt.test(entry.name)) continue;
  const file = join(entry.parentPath, entry.name);
  const packed = gzipSync(readFileSync(file), { level: constants.Z_BEST_COMPRESSION });
  rmSync(`${file}.gz`, { force: true });
  writeFileSync(`${file}.gz`, packed);
}
