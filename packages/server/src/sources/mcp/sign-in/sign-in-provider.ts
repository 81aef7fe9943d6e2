import type {
  OAuthClientInformationContext,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";

export interface SignInProviderOptions {
  readonly redirectUrl: string;
  readonly clientName: string;
  readonly state: string;
  /** A client that is known: of the entry, or registered at an earlier time. */
  readonly client: StoredOAuthClientInformation | undefined;
  /** Where a document says who the rack is, for authorization servers that read such documents. */
  readonly clientMetadataUrl: string | undefined;
  /** Whether the rack may register itself where it is not known. */
  readonly canRegister: boolean;
}

/** What the SDK finds out on the way to the page where a person signs in. It lasts for one attempt. */
export class SignInProvider implements OAuthClientProvider {
  readonly redirectUrl: string;
  readonly clientMetadata: OAuthClientMetadata;
  readonly saveClientInformation?: (
    client: StoredOAuthClientInformation,
    context?: OAuthClientInformationContext,
  ) => void;
  readonly #state: string;
  readonly #clientMetadataUrl: string | undefined;
  #client: StoredOAuthClientInformation | undefined;
  #page: URL | undefined;
  #verifier = "";
  #discovery: OAuthDiscoveryState | undefined;
  #resource: string | undefined;

  constructor(options: SignInProviderOptions) {
    const { redirectUrl, clientName, state, client, clientMetadataUrl, canRegister } = options;
    this.redirectUrl = redirectUrl;
    this.clientMetadata = {
      client_name: clientName,
      redirect_uris: [redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
    this.#state = state;
    this.#clientMetadataUrl = clientMetadataUrl;
    this.#client = client;
    // The SDK registers a client exactly when it can be saved.
    if (canRegister) {
      this.saveClientInformation = (registered) => {
        this.#client = registered;
      };
    }
  }

  /** Where the person signs in. */
  get page(): URL | undefined {
    return this.#page;
  }

  get resource(): string | undefined {
    return this.#resource;
  }

  state(): string {
    return this.#state;
  }

  /**
   * Is asked once the authorization server is known. The address of a document comes before a client that was registered:
   * the SDK would only take it where there is none.
   */
  clientInformation(): StoredOAuthClientInformation | undefined {
    const metadata = this.#discovery?.authorizationServerMetadata;
    if (this.#clientMetadataUrl === undefined || metadata?.client_id_metadata_document_supported !== true) {
      return this.#client;
    }
    return { client_id: this.#clientMetadataUrl, issuer: metadata.issuer };
  }

  /** A new sign-in begins without what an earlier one was given. */
  tokens(): StoredOAuthTokens | undefined {
    return undefined;
  }

  saveTokens(): void {}

  redirectToAuthorization(page: URL): void {
    this.#page = page;
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  saveResourceUrl(resource: string): void {
    this.#resource = resource;
  }

  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    this.#discovery = discovery;
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }
}
