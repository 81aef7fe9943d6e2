import { suites } from "../suites/index.ts";
import type { SampleMessage } from "./sample.ts";
import type { Subject } from "./suite.ts";

const [suiteName, subjectText] = process.argv.slice(2);
// The parent wrote both arguments from the same types.
const suite = suites[suiteName as keyof typeof suites];
const subject = JSON.parse(subjectText!) as Subject;

// The parent was ended, such as by Ctrl-C, which does not reach this group.
process.on("disconnect", () => process.kill(-process.pid, "SIGKILL"));

const message: SampleMessage = await suite.sample(subject).then(
  (sample) => ({ sample }),
  (error: unknown) => ({ failure: error instanceof Error ? error.message : String(error) }),
);
// Some peers leave timers behind; the answer is all that is wanted of this process.
process.send!(message, () => process.exit(0));
