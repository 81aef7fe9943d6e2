import { monitorEventLoopDelay } from "node:perf_hooks";
import type { RackEvent } from "@toolrack/core";

/** Values that are read when metrics are rendered. */
interface Readings {
  readonly activeCalls: number;
  readonly tools: { readonly enabled: number; readonly disabled: number };
  readonly failedFiles: number;
  readonly feedReaders: number;
  readonly feedDropped: number;
  readonly recordFailures: number;
  /** Records in memory that are not stored yet. */
  readonly held: { readonly records: number; readonly bytes: number };
  /** Log lines in memory that are not written yet, and those that were lost. */
  readonly log: { readonly held: number; readonly lost: number };
}

interface ToolCounts {
  completed: number;
  readonly errors: Map<string, number>;
  readonly durations: Histogram;
}

/** Calls of unknown tools are counted under this name, because callers could invent names without end. */
const UNKNOWN = "(unknown)";
const nanosecondsPerSecond = 1e9;

/** Counts calls and requests, and renders them in Prometheus format. */
export class Metrics {
  readonly #tools = new Map<string, ToolCounts>();
  readonly #requests = new Map<string, { readonly labels: Sample["labels"] & object; value: number }>();
  readonly #delay = monitorEventLoopDelay({ resolution: 20 });

  constructor() {
    this.#delay.enable();
  }

  readonly listen = (event: RackEvent): void => {
    if (event.type !== "record") return;
    const { record } = event;
    const code = record.error?.code;
    const tool = code === "tool_not_found" && record.runDuration === 0 ? UNKNOWN : record.toolName;
    const counts = this.#tools.get(tool) ?? { completed: 0, errors: new Map(), durations: new Histogram() };
    this.#tools.set(tool, counts);
    counts.durations.observe(record.duration / 1000);
    if (code === undefined) counts.completed++;
    else counts.errors.set(code, (counts.errors.get(code) ?? 0) + 1);
  };

  countRequest(method: string, route: string, status: number): void {
    const key = `${status} ${method} ${route}`;
    const found = this.#requests.get(key);
    if (found !== undefined) found.value++;
    else this.#requests.set(key, { labels: { method, route, status }, value: 1 });
  }

  /** `mayUse` decides which tools are shown. */
  render(readings: Readings, mayUse: (toolName: string) => boolean): string {
    const tools = [...this.#tools].filter(([tool]) => tool === UNKNOWN || mayUse(tool));
    const { activeCalls, failedFiles, recordFailures, held, log, feedReaders, feedDropped } = readings;
    const { enabled, disabled } = readings.tools;
    return [
      ...callMetrics(tools),
      gauge("toolrack_calls_active", "Calls under way.", activeCalls),
      metricText("toolrack_tools", "gauge", "Tools on the rack.", [
        { labels: { state: "enabled" }, value: enabled },
        { labels: { state: "disabled" }, value: disabled },
      ]),
      gauge("toolrack_files_failed", "Tool files that could not be loaded.", failedFiles),
      counter("toolrack_record_failures_total", "Records that the store refused.", recordFailures),
      gauge("toolrack_records_held", "Records that wait in memory for the store.", held.records),
      gauge("toolrack_records_held_bytes", "Bytes of the records that wait.", held.bytes),
      gauge("toolrack_log_lines_held", "Lines that wait in memory for the log.", log.held),
      counter("toolrack_log_lines_lost_total", "Lines that the log has no room for.", log.lost),
      gauge("toolrack_event_readers", "Readers of the event stream.", feedReaders),
      counter("toolrack_event_readers_dropped_total", "Readers that took nothing any more.", feedDropped),
      metricText("toolrack_http_requests_total", "counter", "Requests answered.", this.#requests.values()),
      ...this.#processMetrics(),
    ].join("");
  }

  close(): void {
    this.#delay.disable();
  }

  #processMetrics(): string[] {
    const delay = this.#delay;
    const seconds = (nanoseconds: number) => (delay.count === 0 ? 0 : nanoseconds / nanosecondsPerSecond);
    const late = "How late the event loop was since this was last read.";
    const lag = metricText("toolrack_event_loop_lag_seconds", "gauge", late, [
      { labels: { quantile: "0.5" }, value: seconds(delay.percentile(50)) },
      { labels: { quantile: "0.99" }, value: seconds(delay.percentile(99)) },
      { labels: { quantile: "1" }, value: seconds(delay.max) },
    ]);
    delay.reset();
    return [
      lag,
      gauge("process_resident_memory_bytes", "Memory of the process.", process.memoryUsage.rss()),
      gauge("process_uptime_seconds", "How long the process has been running.", process.uptime()),
    ];
  }
}

function callMetrics(tools: readonly (readonly [string, ToolCounts])[]): string[] {
  const calls = tools.flatMap(([tool, { completed, errors }]): Sample[] => {
    const failed = [...errors.values()].reduce((sum, count) => sum + count, 0);
    return [
      { labels: { tool, status: "completed" }, value: completed },
      { labels: { tool, status: "error" }, value: failed },
    ];
  });
  const failures = tools.flatMap(([tool, { errors }]) =>
    [...errors].map(([code, value]): Sample => ({ labels: { tool, code }, value })),
  );
  const durations = tools.flatMap(([tool, counts]) => histogramSamples(tool, counts.durations));
  const codes = "Calls that failed, by the code of the error.";
  return [
    metricText("toolrack_calls_total", "counter", "Calls that ended.", calls),
    metricText("toolrack_call_failures_total", "counter", codes, failures),
    metricText("toolrack_call_duration_seconds", "histogram", "From arrival to end of a call.", durations),
  ];
}

function histogramSamples(tool: string, { counts, sum, count }: Histogram): Sample[] {
  let total = 0;
  const buckets = durationBuckets.map((bound, index): Sample => {
    total += counts[index]!;
    return { suffix: "_bucket", labels: { tool, le: bound }, value: total };
  });
  return [
    ...buckets,
    { suffix: "_bucket", labels: { tool, le: "+Inf" }, value: count },
    { suffix: "_sum", labels: { tool }, value: sum },
    { suffix: "_count", labels: { tool }, value: count },
  ];
}

function gauge(name: string, help: string, value: number): string {
  return metricText(name, "gauge", help, [{ value }]);
}

function counter(name: string, help: string, value: number): string {
  return metricText(name, "counter", help, [{ value }]);
}

/** In seconds, from a tool that answers from memory to one that waits for its time limit. */
const durationBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120] as const;

/** Counts observations below each bound, as Prometheus does. */
class Histogram {
  readonly counts = new Array<number>(durationBuckets.length).fill(0);
  sum = 0;
  count = 0;

  observe(seconds: number): void {
    this.sum += seconds;
    this.count++;
    let bucket = 0;
    while (bucket < durationBuckets.length && seconds > durationBuckets[bucket]!) bucket++;
    if (bucket < durationBuckets.length) this.counts[bucket]!++;
  }
}

type Labels = Readonly<Record<string, string | number>>;

interface Sample {
  /** Suffix of the metric's name, such as `_bucket`. */
  readonly suffix?: string;
  readonly labels?: Labels;
  readonly value: number;
}

/** One metric with its samples in Prometheus text format. */
function metricText(
  name: string,
  type: "counter" | "gauge" | "histogram",
  help: string,
  samples: Iterable<Sample>,
): string {
  const lines = Array.from(
    samples,
    ({ suffix = "", labels = {}, value }) => `${name}${suffix}${labelText(labels)} ${value}\n`,
  );
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}`;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
