import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** The text of a package's index.js, alone or with the packages that it depends on and more of its package.json. */
export type TestPackage =
  | string
  | {
      readonly text: string;
      readonly dependencies?: Readonly<Record<string, string>>;
      readonly manifest?: Readonly<Record<string, unknown>>;
    };

/** Packages by name and version. */
export type TestPackages = Readonly<Record<string, Readonly<Record<string, TestPackage>>>>;

export interface TestRegistry {
  readonly url: string;
  /** The requested paths, in order. */
  readonly requests: string[];
  /** Paths that are answered with a server error. */
  readonly broken: Set<string>;
  /** Writes the `.npmrc` that makes a workspace use this registry. */
  useFor(workspace: string): Promise<void>;
  close(): Promise<void>;
}

/** A package registry on this machine. The install scripts of its packages would write a file `ran`. */
export async function startRegistry(packages: TestPackages): Promise<TestRegistry> {
  const requests: string[] = [];
  const broken = new Set<string>();
  const folder = await mkdtemp(join(tmpdir(), "toolrack-registry-"));
  const tarballs = new Map<string, Buffer>();
  for (const [name, versions] of Object.entries(packages)) {
    for (const [version, made] of Object.entries(versions)) {
      tarballs.set(`/${name}/-/${name}-${version}.tgz`, await pack(folder, name, version, made));
    }
  }
  await rm(folder, { recursive: true, force: true });

  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "/");
    requests.push(path);
    const tarball = tarballs.get(path);
    if (broken.has(path)) response.writeHead(503).end();
    else if (tarball !== undefined) response.end(tarball);
    else if (packages[path.slice(1)] !== undefined) response.end(JSON.stringify(document(path.slice(1))));
    else response.writeHead(404, { "content-type": "application/json" }).end('{"error":"not_found"}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const document = (name: string) => {
    const versions = Object.keys(packages[name]!);
    const describe = (version: string) => {
      const path = `/${name}/-/${name}-${version}.tgz`;
      const integrity = `sha512-${createHash("sha512").update(tarballs.get(path)!).digest("base64")}`;
      const scripts = { postinstall: "node -e \"require('fs').writeFileSync('ran','')\"" };
      const dependencies = dependenciesOf(packages[name]![version]!);
      const dist = { tarball: url + path, integrity };
      return { name, version, hasInstallScript: true, scripts, dependencies, dist };
    };
    return {
      name,
      "dist-tags": { latest: versions.at(-1) },
      time: Object.fromEntries(versions.map((version) => [version, "2020-01-01T00:00:00.000Z"])),
      versions: Object.fromEntries(versions.map((version) => [version, describe(version)])),
    };
  };
  return {
    url,
    requests,
    broken,
    useFor: (workspace) => writeFile(join(workspace, ".npmrc"), `registry=${url}/\n`),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function dependenciesOf(made: TestPackage): Readonly<Record<string, string>> {
  return typeof made === "string" ? {} : (made.dependencies ?? {});
}

async function pack(folder: string, name: string, version: string, made: TestPackage): Promise<Buffer> {
  const place = join(folder, `${name}-${version}`);
  await mkdir(join(place, "package"), { recursive: true });
  const scripts = { postinstall: "node -e \"require('fs').writeFileSync('ran','')\"" };
  await writeFile(
    join(place, "package", "package.json"),
    JSON.stringify({
      ...{ name, version, main: "index.js", scripts, dependencies: dependenciesOf(made) },
      ...(typeof made === "string" ? {} : made.manifest),
    }),
  );
  await writeFile(join(place, "package", "index.js"), typeof made === "string" ? made : made.text);
  await promisify(execFile)("tar", ["-czf", "package.tgz", "package"], { cwd: place });
  return readFile(join(place, "package.tgz"));
}
