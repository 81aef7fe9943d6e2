interface Flushed {
  flush(): void;
}

const signals = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const open = new Set<Flushed>();

/**
 * Flushes a log when the process ends, for whatever reason, until the answer is called. However many logs there are,
 * they share one listener for each event: listeners of their own would take each other for somebody who handles the
 * signal.
 */
export function flushAtEnd(log: Flushed): () => void {
  if (open.size === 0) listen();
  open.add(log);
  return () => {
    if (open.delete(log) && open.size === 0) stopListening();
  };
}

function listen(): void {
  process.on("exit", flushAll);
  process.on("uncaughtExceptionMonitor", flushAll);
  for (const signal of signals) process.on(signal, onSignal);
}

function stopListening(): void {
  process.off("exit", flushAll);
  process.off("uncaughtExceptionMonitor", flushAll);
  for (const signal of signals) process.off(signal, onSignal);
}

function flushAll(): void {
  for (const log of open) log.flush();
}

function onSignal(signal: NodeJS.Signals): void {
  flushAll();
  // Listening keeps a signal from ending the process. Where nobody else listens, it still has to.
  if (process.listenerCount(signal) > 1) return;
  process.off(signal, onSignal);
  process.kill(process.pid, signal);
}
