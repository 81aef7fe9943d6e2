import { constants } from "node:fs";
import { lstat, open } from "node:fs/promises";
import { basename } from "node:path";

/** Windows has neither; there the look beforehand has to do. */
const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * The bytes of a file that somebody else may have put there. A link could lead to a secret, a pipe would never end, and
 * a large file would fill the memory: each is refused before anything of it is read.
 */
export async function readRegularFile(path: string, largest: number): Promise<Buffer> {
  const name = basename(path);
  if (!(await lstat(path)).isFile()) throw notRegular(name);
  const file = await open(path, flags).catch((thrown: NodeJS.ErrnoException) => {
    throw thrown.code === "ELOOP" ? notRegular(name) : thrown;
  });
  try {
    const found = await file.stat();
    if (!found.isFile()) throw notRegular(name);
    if (found.size > largest) throw tooLarge(name, largest);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

function notRegular(name: string): Error {
  return new Error(`${name} must be a regular file: links, pipes and devices are not read.`);
}

function tooLarge(name: string, largest: number): Error {
  return new Error(`${name} is larger than ${largest / (1024 * 1024)} MiB.`);
}
