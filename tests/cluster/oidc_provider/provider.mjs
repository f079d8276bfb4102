// A real provider of OpenID Connect for tests, over HTTPS on loopback. Any name signs in; settings are a JSON argument.
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";

import { Provider } from "oidc-provider";

const { issuer, port, certificate, key, keys, clients } = JSON.parse(process.argv[2]);

// Kept over a restart, which forgets all sessions and tokens: the API server knows these keys.
if (!existsSync(keys)) {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  writeFileSync(keys, JSON.stringify({ keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: "one" }] }));
}

function groupsOf(name) {
  // More than fits into one cookie.
  return name === "many" ? Array.from({ length: 200 }, (_, at) => `a-group-with-quite-a-long-name-${at}`) : ["people"];
}

const provider = new Provider(issuer, {
  clients,
  jwks: JSON.parse(readFileSync(keys, "utf8")),
  cookies: { keys: [randomBytes(32).toString("hex")] },
  claims: { openid: ["sub"], email: ["email"], groups: ["groups"] },
  conformIdTokenClaims: false,
  features: { revocation: { enabled: true } },
  findAccount: async (_context, name) => ({
    accountId: name,
    claims: async () => ({ sub: name, email: `${name}@example.com`, groups: groupsOf(name) }),
  }),
  pkce: { required: () => true },
  ttl: {
    AccessToken: 3600,
    AuthorizationCode: 600,
    Grant: 86400,
    // Longer after a refresh: a test that sets its clock ahead of the first one has time.
    IdToken: (context) => (context.oidc.params.grant_type === "refresh_token" ? 86400 : 3600),
    Interaction: 3600,
    RefreshToken: 86400,
    Session: 86400,
  },
});

createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, provider.callback()).listen(port, "127.0.0.1");
