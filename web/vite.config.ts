// Builds the page into the console's package; what is there is served by `edgewright console`, with no other host.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  base: "./", // where a proxy serves it is known when it is asked for
  build: {
    outDir: "../src/edgewright/console/static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // a data: address would need an exception in the Content-Security-Policy
    sourcemap: false,
  },
  // A limit only bounds a failure: a busy machine is none.
  test: { include: ["src/**/*.test.ts"], testTimeout: 60_000 },
});
