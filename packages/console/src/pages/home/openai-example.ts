/** A whole agent: it asks the model, runs the calls that the model makes, and asks again until there is an answer. */
export function openaiExample(url: string): string {
  return `import OpenAI from "openai";

const rack = async (path, body) => {
  const answer = await fetch("${url}" + path, {
    method: body ? "POST" : "GET",
    headers: { Authorization: "Bearer " + process.env.TOOLRACK_TOKEN, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
};

const openai = new OpenAI();
const tools = await rack("/openai/tools");
const messages = [{ role: "user", content: process.argv[2] ?? "What can you do?" }];

for (let turn = 0; turn < 20; turn++) {
  const model = process.env.OPENAI_MODEL ?? "gpt-5";
  const { choices } = await openai.chat.completions.create({ model, messages, tools });
  const { message } = choices[0];
  messages.push(message);
  if (!message.tool_calls?.length) break;
  messages.push(...(await rack("/openai/tool-calls", message)));
}
console.log(messages.at(-1).content);`;
}
