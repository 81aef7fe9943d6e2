import { statfs } from "node:fs/promises";
import os from "node:os";
import * as s from "../../helpers/schema.ts";
import { answer, defineTool } from "../tool-definition.ts";

export default defineTool({
  name: "info",
  description:
    "Describes the machine where the tools run: operating system, kernel, CPU, memory, load, uptime, Node version, and the disk that holds the workspace. Use it to choose commands and sizes that fit. Shows no environment variables and no secrets.",
  input: {},
  isClosed: true,
  output: {
    os: s.object({ platform: s.text(), name: s.text(), kernel: s.text(), arch: s.text() }),
    cpu: s.object({ model: s.text(), count: s.integer(), usable: s.integer() }),
    load: s.anything({
      type: "array",
      items: { type: "number" },
      description: "Average over 1, 5 and 15 minutes.",
    }),
    memory: s.object({
      total: s.integer(),
      free: s.integer(),
      limit: s.anything({ type: ["integer", "null"] }),
    }),
    disk: s.object({ total: s.integer(), free: s.integer() }),
    uptime: s.integer("Seconds."),
    node: s.text(),
    workspace: s.text(),
  },
  async handler(_args, { workspace }) {
    const disk = await statfs(workspace.directory);
    const cpus = os.cpus();
    const info = {
      os: { platform: os.platform(), name: os.version(), kernel: os.release(), arch: os.arch() },
      cpu: {
        model: cpus[0]?.model.trim() ?? "unknown",
        count: cpus.length,
        usable: os.availableParallelism(),
      },
      load: os.loadavg().map((value) => Math.round(value * 100) / 100),
      memory: { total: os.totalmem(), free: os.freemem(), limit: memoryLimit() },
      disk: { total: disk.blocks * disk.bsize, free: disk.bavail * disk.bsize },
      uptime: Math.round(os.uptime()),
      node: process.version,
      workspace: workspace.directory,
    };
    const limit = info.memory.limit === null ? "" : `, limited to ${gigabytes(info.memory.limit)}`;
    const lines = [
      `OS: ${info.os.platform} ${info.os.arch}, kernel ${info.os.kernel} (${info.os.name})`,
      `CPU: ${info.cpu.count} × ${info.cpu.model}, ${info.cpu.usable} usable`,
      `Load: ${info.load.join(" ")} (1, 5, 15 minutes)`,
      `Memory: ${gigabytes(info.memory.free)} free of ${gigabytes(info.memory.total)}${limit}`,
      `Disk of the workspace: ${gigabytes(info.disk.free)} free of ${gigabytes(info.disk.total)}`,
      `Up for: ${duration(info.uptime)}`,
      `Node: ${info.node}`,
      `Workspace: ${info.workspace}`,
    ];
    return answer(lines.join("\n"), info);
  },
  metadata: { category: "system", readOnly: true, idempotent: true, tags: ["machine", "hardware"] },
});

/** The memory limit of a container, if it is below the machine's memory. */
function memoryLimit(): number | null {
  const limit = process.constrainedMemory();
  return limit > 0 && limit < os.totalmem() ? limit : null;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1_073_741_824).toFixed(1)} GB`;
}

function duration(seconds: number): string {
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor((seconds % 86_400) / 3_600);
  const minutes = Math.floor((seconds % 3_600) / 60);
  return [days > 0 && `${days} d`, hours > 0 && `${hours} h`, `${minutes} min`].filter(Boolean).join(" ");
}
