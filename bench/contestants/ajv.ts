import { Ajv2020 } from "ajv/dist/2020.js";
import { type Contestant, readText } from "./contestant.ts";

export const ajv: Contestant = {
  setUpCall({ jsonSchema, run }) {
    const validate = new Ajv2020().compile(jsonSchema);
    return {
      async call(input) {
        if (!validate(input)) throw new Error("invalid input");
        return run(input);
      },
      readAnswer: readText,
    };
  },
};
