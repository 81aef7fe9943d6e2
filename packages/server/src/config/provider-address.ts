import type { ModelProvider } from "./config.ts";

/** What is wrong with the addresses of model providers, for people. References in them are not filled in here. */
export function providerAddressProblems(providers: Readonly<Record<string, ModelProvider>> = {}): string[] {
  return Object.entries(providers).flatMap(([name, { baseURL }]) => {
    const problem = hasCredentials(baseURL) ? credentialsProblem : undefined;
    return problem === undefined ? [] : [`providers.${name}.baseURL ${problem}`];
  });
}

/** What is wrong with an address in which all references are filled in; undefined when it can be asked. */
export function addressProblem(baseURL: string): string | undefined {
  if (hasCredentials(baseURL)) return credentialsProblem;
  const isHttp = URL.canParse(baseURL) && /^https?:$/.test(new URL(baseURL).protocol);
  return isHttp ? undefined : "is no http or https address.";
}

/** The address as people are shown it: as it was written, without credentials and without the values of a query. */
export function shownAddress(baseURL: string): string {
  return baseURL
    .replace(/\/+$/, "")
    .replace(credentials, "$1")
    .replace(/([?&][^=&#]*=)[^&#]*/g, "$1…");
}

const credentials = /^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i;

const credentialsProblem =
  "has a user name or a password in it, which is not sent. Put what the server asks for into apiKey or headers, as a " +
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how people write it.
  'reference to a secret: headers: { authorization: "Basic ${secret:NAME}" }.';

function hasCredentials(baseURL: string): boolean {
  return credentials.test(baseURL);
}
