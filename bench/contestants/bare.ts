import { type Contestant, readText } from "./contestant.ts";

/** The floor: what a call costs when nothing stands before it. It validates nothing. */
export const bare: Contestant = {
  setUpCall: (scenario) => ({
    call: async (input) => scenario.run(input),
    readAnswer: readText,
  }),
};
