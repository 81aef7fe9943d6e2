/**
 * Which variables of the rack's own environment the process of an upstream server is given. All others stay here: an entry
 * names what else its server needs.
 */

/** What every program needs to run. */
const basics: ReadonlySet<string> = new Set(
  (process.platform === "win32"
    ? "APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA PATH PATHEXT PROGRAMDATA PROGRAMFILES SYSTEMDRIVE SYSTEMROOT TEMP TMP USERNAME USERPROFILE WINDIR"
    : "PATH HOME LANG LC_ALL LC_CTYPE TMPDIR TZ USER LOGNAME SHELL TERM"
  ).split(" "),
);

/**
 * What a program needs to reach anything from inside a company: the proxy, the certificates, and where npx, uvx and pipx
 * fetch packages. Programs spell these names in upper and lower case. A proxy's password may be among the values. Tokens of
 * npm (`npm_config__auth`, `npm_config_//…:_authToken`) are not; npm finds them in the person's `.npmrc`.
 */
const network = new RegExp(
  `^(?:${[
    "(?:https?|all|no)_proxy",
    "node_(?:extra_ca_certs|use_env_proxy|use_system_ca)",
    "ssl_cert_(?:file|dir)",
    "(?:requests|curl|aws)_ca_bundle",
    "(?:git_ssl_cainfo|pip_cert|deno_cert|deno_tls_ca_store|cargo_http_cainfo)",
    "npm_config_(?:(?:@[\\w.-]+:)?registry|proxy|https?[_-]proxy|noproxy|cafile|ca|strict[_-]ssl|userconfig)",
    "(?:uv_(?:default_index|index_url|native_tls|system_certs)|pip_(?:index_url|proxy|trusted_host))",
  ].join("|")})$`,
  "i",
);

export function isBasic(name: string): boolean {
  return basics.has(name);
}

export function isNetwork(name: string): boolean {
  return network.test(name);
}

/**
 * The inherited variables of a process. `own`: what its entry sets. A name that the entry sets in another case is not
 * inherited, because programs differ in which of the two they read.
 */
export function inheritedBeside(
  own: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const set = new Set(Object.keys(own).map((name) => name.toLowerCase()));
  const isInherited = (name: string) => isBasic(name) || (isNetwork(name) && !set.has(name.toLowerCase()));
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value !== undefined && isInherited(name) ? [[name, value]] : [],
    ),
  );
}
