import { createSocket } from "node:dgram";
import { once } from "node:events";
import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { join } from "node:path";
import { temporaryFolder } from "../../testing/temporary-folder.ts";

/** Where a tool that got out would find something. */
export interface TrapPlaces {
  readonly directory: string;
  readonly secretFile: string;
  readonly secretModule: string;
  readonly httpPort: number;
  readonly tcpPort: number;
  readonly udpPort: number;
  readonly unixSocket: string;
  readonly abstractSocket: string;
  readonly hostPid: number;
  readonly node: string;
}

/** Things on the host that nobody in a sandbox may see, touch or reach, open to every user of the machine. */
export class Trap {
  readonly places: TrapPlaces;
  readonly secret = `host-secret-${Math.random().toString(36).slice(2)}`;
  readonly #servers: { close(): void }[] = [];
  readonly #visits: string[] = [];
  readonly #expected: string[];
  readonly #onSignal = () => void this.#visits.push("signal");

  static async set(): Promise<Trap> {
    const directory = temporaryFolder();
    chmodSync(directory, 0o777);
    const trap = new Trap(directory);
    await trap.#listen();
    return trap;
  }

  private constructor(directory: string) {
    const secretFile = join(directory, "secret.txt");
    const secretModule = join(directory, "secret.cjs");
    writeFileSync(secretFile, `SECRET=${this.secret}\n`, { mode: 0o666 });
    chmodSync(secretFile, 0o666);
    writeFileSync(secretModule, `module.exports = ${JSON.stringify(this.secret)};\n`);
    process.env.TRAP_SECRET = this.secret;
    process.on("SIGWINCH", this.#onSignal);
    const unixSocket = join(directory, "socket");
    this.places = {
      directory,
      secretFile,
      secretModule,
      unixSocket,
      abstractSocket: `\0${directory}`,
      hostPid: process.pid,
      node: process.execPath,
      httpPort: 0,
      tcpPort: 0,
      udpPort: 0,
    };
    this.#expected = ["secret.cjs", "secret.txt", "socket"];
  }

  /** What has happened outside since the last look. */
  trespasses(): string[] {
    const { directory, secretFile } = this.places;
    const names = readdirSync(directory).filter((name) => !this.#expected.includes(name));
    for (const name of names) rmSync(join(directory, name), { recursive: true, force: true });
    const isChanged = readFileSync(secretFile, "utf8") !== `SECRET=${this.secret}\n`;
    if (isChanged) writeFileSync(secretFile, `SECRET=${this.secret}\n`);
    const pollution = Object.keys(Object.prototype).map((key) => `Object.prototype.${key}`);
    return [
      ...this.#visits.splice(0),
      ...names.map((name) => `created ${name}`),
      ...(isChanged ? ["changed the secret file"] : []),
      ...pollution,
    ];
  }

  close(): void {
    process.off("SIGWINCH", this.#onSignal);
    delete process.env.TRAP_SECRET;
    for (const server of this.#servers) server.close();
    rmSync(this.places.directory, { recursive: true, force: true });
  }

  async #listen(): Promise<void> {
    const http = createHttpServer((_request, response) => {
      this.#visits.push("http");
      response.end(this.secret);
    });
    const tcp = await this.#open("tcp", 0);
    http.listen(0, "127.0.0.1");
    await once(http, "listening");
    await this.#open("unix socket", this.places.unixSocket);
    chmodSync(this.places.unixSocket, 0o777);
    if (process.platform === "linux") await this.#open("abstract socket", this.places.abstractSocket);
    const udp = createSocket("udp4", () => void this.#visits.push("udp"));
    udp.bind(0, "127.0.0.1");
    await once(udp, "listening");
    this.#servers.push(http, udp);
    Object.assign(this.places, {
      httpPort: (http.address() as AddressInfo).port,
      tcpPort: (tcp.address() as AddressInfo).port,
      udpPort: udp.address().port,
    });
  }

  async #open(name: string, where: number | string): Promise<Server> {
    const server = createServer((socket) => {
      this.#visits.push(name);
      socket.on("error", () => {});
      socket.end(this.secret);
    });
    if (typeof where === "number") server.listen(where, "127.0.0.1");
    else server.listen(where);
    await once(server, "listening");
    this.#servers.push(server);
    return server;
  }
}
