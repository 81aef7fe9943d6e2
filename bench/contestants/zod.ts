import { type Contestant, readText } from "./contestant.ts";

export const zod: Contestant = {
  setUpCall: ({ zodSchema, run }) => ({
    call: async (input) => run(zodSchema.parse(input)),
    readAnswer: readText,
  }),
};
