/** Shorter values of the environment are rather switches than secrets. */
const SHORTEST = 8;

const secretName = /(^|_)(API_?)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|CREDENTIALS?)S?(_|$)/i;
/** Names of these say where a secret lies, not what it is; and `PWD` alone is the working directory. */
const placeName = /(_(FILE|PATH|DIR|SOCK)|^(OLD)?PWD)$/i;

/**
 * The secret values that a workspace can know: passwords of its databases and in addresses such as `DATABASE_URL`, and
 * variables named like secrets.
 */
export function knownSecrets(
  databases: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): string[] {
  const secrets = new Set<string>();
  for (const url of Object.values(databases)) for (const password of passwordsOf(url)) secrets.add(password);
  for (const [name, value = ""] of Object.entries(environment)) {
    for (const password of passwordsOf(value)) secrets.add(password);
    if (value.length >= SHORTEST && secretName.test(name) && !placeName.test(name)) secrets.add(value);
  }
  return [...secrets];
}

/** As it is written in the URL, and as the driver sends it. One that is the user's name again is no secret. */
function passwordsOf(url: string): string[] {
  const [, user, password] = /:\/\/([^\s/?#@:]*):([^\s/?#]+)@/.exec(url) ?? [];
  if (password === undefined || password === user) return [];
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    return [password];
  }
}
