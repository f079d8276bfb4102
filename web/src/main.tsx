// Where the page begins: styles, the theme that was chosen last, and the routes.
import "@patternfly/patternfly/patternfly-base.css";
import "@patternfly/react-core/dist/styles/base.css";
import "./console.css";

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";

import { App } from "./app";
import { ProblemError } from "./api/client";
import { prefix } from "./api/place";
import { applyTheme, chosenTheme } from "./parts/theme";

applyTheme(chosenTheme());

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (times, error) => times < 2 && !(error instanceof ProblemError && error.problem.status >= 400),
      refetchOnWindowFocus: true,
    },
  },
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <BrowserRouter basename={prefix}>
        <App />
      </BrowserRouter>
    </QueryClientProvider>
  </StrictMode>,
);
