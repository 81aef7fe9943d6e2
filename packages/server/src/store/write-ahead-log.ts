import { chmodSync, closeSync, copyFileSync, fstatSync, openSync, readSync } from "node:fs";
import type { Logger } from "@toolrack/core";
import { sql } from "kysely";
import type { StoreDatabase } from "./schema.ts";

const HEADER = 32;
const FRAME_HEADER = 24;
/**
 * Each restart of the log raises the first salt in its header by one. A frame whose salt is at most this much
 * lower is left over from before a restart.
 */
const GENERATIONS = 1 << 20;

/**
 * SQLite reads the write-ahead log up to the first damaged place and silently ignores the rest. If
 * transactions were ignored, logs a warning, keeps a copy of the log and returns true. Must be called when
 * the database has just been opened and no other process has it open.
 */
export async function warnOfDamagedLog(
  db: StoreDatabase,
  path: string,
  logger: Pick<Logger, "warn">,
): Promise<boolean> {
  const { rows } = await sql<{ log: number }>`pragma wal_checkpoint(passive)`.execute(db);
  const frames = Math.max(0, rows[0]?.log ?? 0);
  const { isForeign, dropped } = lookBehind(path, frames);
  // A process that was killed while it wrote leaves at most one incomplete transaction, which is no damage.
  if (!isForeign && dropped < 2) return false;
  const copy = `${path}.damaged-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
  copyFileSync(path, copy);
  chmodSync(copy, 0o600);
  logger.warn(
    `${path} is damaged: ${frames} of its pages could be read, and ${dropped === 0 ? "what is behind them" : `at least ${dropped} behind them`} was left out. The last changes before the server ended may be missing. A copy is kept as ${copy}.`,
  );
  return true;
}

/**
 * Examines the frames (each holds one page) behind the `frames` that SQLite reads. `dropped`: how many of
 * them end a transaction of this log. `isForeign`: some belong neither to this log nor to one before a
 * restart.
 */
function lookBehind(path: string, frames: number): { isForeign: boolean; dropped: number } {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const header = Buffer.alloc(HEADER);
    readSync(file, header, 0, HEADER, 0);
    const length = FRAME_HEADER + header.readUInt32BE(8);
    const isHeader = (header.readUInt32BE(0) & ~1) >>> 0 === 0x377f0682 && length > 512;
    if (!isHeader) return { isForeign: size > 0, dropped: 0 };
    const frame = Buffer.alloc(FRAME_HEADER);
    let isForeign = false;
    let dropped = 0;
    for (let at = HEADER + frames * length; at + length <= size; at += length) {
      readSync(file, frame, 0, FRAME_HEADER, at);
      const age = (header.readUInt32BE(16) - frame.readUInt32BE(8)) >>> 0;
      if (age > GENERATIONS) isForeign = true;
      // Only the last frame of a transaction holds the size of the database here; other frames hold 0.
      else if (age === 0 && frame.readUInt32BE(4) > 0) dropped++;
    }
    return { isForeign, dropped };
  } finally {
    closeSync(file);
  }
}
