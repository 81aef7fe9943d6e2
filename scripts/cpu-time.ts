/** How many milliseconds of the processor this thread takes for `work`. A busy machine does not change them, as it does the time. */
export function cpuTime(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
