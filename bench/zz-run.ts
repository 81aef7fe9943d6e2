const { fleet } = await import("./suites/fleet.ts");
const t = Date.now();
console.log(
  JSON.stringify(await fleet.sample({ contestant: process.argv[2], variant: process.argv[3] })),
  Date.now() - t,
);
process.exit(0);
