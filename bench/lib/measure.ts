import { sampleInChild } from "./sample.ts";
import type { Measured, Subject } from "./suite.ts";

/**
 * Samples every subject once per round, so that a slow minute of the machine hits all of them alike. Each round
 * starts at another subject. A subject that failed once is not sampled again.
 */
export async function measure(
  suiteName: string,
  subjects: readonly Subject[],
  { rounds, limit }: { readonly rounds: number; readonly limit: number | undefined },
  onSample: (done: number, total: number, subject: Subject) => void,
): Promise<Measured<unknown>[]> {
  const measured = subjects.map((subject) => ({
    ...subject,
    samples: [] as unknown[],
    failure: undefined as string | undefined,
  }));
  let done = 0;
  for (let round = 0; round < rounds; round++) {
    const start = Math.floor((round * measured.length) / rounds);
    for (const entry of [...measured.slice(start), ...measured.slice(0, start)]) {
      onSample(++done, rounds * measured.length, entry);
      if (entry.failure !== undefined) continue;
      const { contestant, variant } = entry;
      const message = await sampleInChild(suiteName, { contestant, variant }, limit);
      if ("failure" in message) entry.failure = message.failure;
      else entry.samples.push(message.sample);
    }
  }
  return measured;
}
