import { isCancel, select, text } from "@clack/prompts";
import { type ContractName, contractNames, contracts } from "./contracts.ts";
import { nameProblem } from "./scaffold.ts";

/** Asks for what the command line left out. Nothing when the person went away. */
export async function askScaffold(
  given: ContractName | undefined,
): Promise<{ contract: ContractName; name: string } | undefined> {
  const contract = given ?? (await askContract());
  if (contract === undefined) return undefined;
  const name = await text({
    message: contract === "internal" ? "Its name, as group/action" : "Its name",
    placeholder: contract === "internal" ? "text/greet" : "greet",
    validate: (value) => nameProblem(contract, value ?? ""),
    output: process.stderr,
  });
  return isCancel(name) ? undefined : { contract, name };
}

async function askContract(): Promise<ContractName | undefined> {
  const answer = await select<ContractName>({
    message: "How do you want to write the tool?",
    options: contractNames.map((value) => ({ value, label: value, hint: contracts[value] })),
    output: process.stderr,
  });
  return isCancel(answer) ? undefined : answer;
}
