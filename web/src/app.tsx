// The frame around every page: who is signed in, the theme, whether the fleet is frozen, and the way to the pages.
import {
  Alert,
  Button,
  Form,
  FormGroup,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MastheadToggle,
  Nav,
  NavItem,
  NavList,
  Page,
  PageSection,
  PageSidebar,
  PageSidebarBody,
  PageToggleButton,
  TextInput,
  Title,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from "@patternfly/react-core";
import BarsIcon from "@patternfly/react-icons/dist/esm/icons/bars-icon";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { Link, Navigate, Route, Routes, useLocation } from "react-router";

import { ProblemError, api, rememberToken } from "./api/client";
import { prefix } from "./api/place";
import type { FleetSummary, Me, Problem, SignedOut } from "./api/types";
import { text } from "./model/text";
import { CreateRolloutPage } from "./pages/create-rollout";
import { DevicePage } from "./pages/device";
import { DevicesPage } from "./pages/devices";
import { FleetPage } from "./pages/fleet";
import { KindPage, KindsPage } from "./pages/kinds";
import { NewObjectPage, ObjectPage } from "./pages/object";
import { RolloutPage } from "./pages/rollout";
import { RolloutsPage } from "./pages/rollouts";
import { Announcer } from "./parts/announcer";
import { forgetDraft } from "./parts/draft";
import { FleetSwitch } from "./parts/fleet-switch";
import { Failure, Loading } from "./parts/state";
import { type Theme, applyTheme, chosenTheme } from "./parts/theme";

const PAGES: [string, string][] = [
  ["/fleet", text.nav.fleet],
  ["/devices", text.nav.devices],
  ["/rollouts", text.nav.rollouts],
  ["/kinds/flashjobs", text.nav.jobs],
  ["/kinds", text.nav.kinds],
];

/** Which entry of the navigation a path belongs to: the longest that it begins with. */
export function activePage(path: string): string {
  const fitting = PAGES.map(([to]) => to).filter((to) => path === to || path.startsWith(`${to}/`));
  return fitting.sort((a, b) => b.length - a.length)[0] ?? "";
}

export function App(): ReactElement {
  const me = useQuery({ queryKey: ["me"], queryFn: () => api<Me>("GET", "/api/v1/me") });
  if (me.isPending) {
    return <Loading />;
  }
  const unknown = me.error instanceof ProblemError && me.error.problem.status === 401 ? me.error.problem : null;
  return (
    <Frame user={unknown ? "" : (me.data?.user.name ?? "")} session={me.data?.session}>
      {unknown ? <SignIn problem={unknown} /> : me.error ? <PageSection><Failure error={me.error} /></PageSection> : <Pages />}
    </Frame>
  );
}

function Pages(): ReactElement {
  return (
    <Routes>
      <Route path="/" element={<Navigate to="/fleet" replace />} />
      <Route path="/sign-in" element={<Navigate to="/fleet" replace />} />
      <Route path="/fleet" element={<FleetPage />} />
      <Route path="/devices" element={<DevicesPage />} />
      <Route path="/devices/:name" element={<DevicePage />} />
      <Route path="/rollouts" element={<RolloutsPage />} />
      <Route path="/rollouts/create" element={<CreateRolloutPage />} />
      <Route path="/rollouts/:namespace/:name" element={<RolloutPage />} />
      <Route path="/kinds" element={<KindsPage />} />
      <Route path="/kinds/:resource" element={<KindPage />} />
      <Route path="/kinds/:resource/create" element={<NewObjectPage />} />
      <Route path="/kinds/:resource/:name" element={<ObjectPage />} />
      <Route path="/kinds/:resource/in/:namespace/:name" element={<ObjectPage />} />
      <Route path="*" element={<Navigate to="/fleet" replace />} />
    </Routes>
  );
}

interface FrameProps {
  user: string;
  session?: Me["session"];
  children: ReactElement;
}

/** Ends the session, at the provider too where it can, and begins again with an empty page: nothing of what was seen stays in its memory. */
async function signOut(): Promise<void> {
  let next = `${prefix}/`;
  forgetDraft();
  try {
    next = (await api<SignedOut | undefined>("DELETE", "/api/v1/session"))?.provider ?? next;
  } finally {
    location.assign(next);
  }
}

function Frame({ user, session, children }: FrameProps): ReactElement {
  const [theme, setTheme] = useState<Theme>(chosenTheme());
  const { pathname } = useLocation();
  const active = activePage(pathname);
  const flip = () => {
    const next = theme === "dark" ? "light" : "dark";
    applyTheme(next);
    setTheme(next);
  };
  const masthead = (
    <Masthead>
      <MastheadMain>
        <MastheadToggle>
          <PageToggleButton variant="plain" aria-label={text.navigation}>
            <BarsIcon />
          </PageToggleButton>
        </MastheadToggle>
        <MastheadBrand>
          <MastheadLogo component={(given: object) => <Link {...given} to="/fleet" />} className="ew-brand">{text.product}</MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isStatic>
          <ToolbarContent>
            <ToolbarGroup className="ew-session" align={{ default: "alignEnd" }}>
              {user ? <ToolbarItem>{text.signedInAs(user)}</ToolbarItem> : null}
              {user && session ? (
                <ToolbarItem>
                  <Button variant="secondary" size="sm" onClick={() => void signOut()}>
                    {text.signOut}
                  </Button>
                </ToolbarItem>
              ) : null}
              <ToolbarItem>
                <Button variant="secondary" size="sm" onClick={flip}>
                  {theme === "dark" ? text.theme.light : text.theme.dark}
                </Button>
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
  const sidebar = (
    <PageSidebar>
      <PageSidebarBody>
        <Nav aria-label={text.pages}>
          <NavList>
            {PAGES.map(([to, name]) => (
              <NavItem key={to} itemId={to} isActive={active === to}>
                <Link to={to}>{name}</Link>
              </NavItem>
            ))}
          </NavList>
        </Nav>
      </PageSidebarBody>
    </PageSidebar>
  );
  return (
    <Page masthead={masthead} sidebar={sidebar} isManagedSidebar mainContainerId="main" skipToContent={<a className="ew-skip" href="#main">{text.skip}</a>}>
      {user ? <FreezeBanner /> : null}
      {children}
      <Announcer />
    </Page>
  );
}

function FreezeBanner(): ReactElement | null {
  const fleet = useQuery({
    queryKey: ["fleet", "", ""],
    queryFn: () => api<FleetSummary>("GET", "/api/v1/fleet"),
    refetchInterval: 15_000,
  });
  const freeze = fleet.data?.freeze;
  return freeze ? (
    <Alert component="p" variant="warning" isInline title={text.frozen(freeze.by, freeze.reason)}>
      <FleetSwitch fleet={fleet.data!} />
    </Alert>
  ) : null;
}

function SignIn({ problem }: { problem: Problem }): ReactElement {
  const [token, setToken] = useState("");
  const queries = useQueryClient();
  return (
    <PageSection><div className="ew-page">
      <Title headingLevel="h1">{text.signIn.title}</Title>
      {problem.signIn ? (
        <>
          <p className="ew-wrap">{problem.detail}</p>
          <p>
            <Button component="a" href={prefix + problem.signIn}>
              {text.signIn.provider}
            </Button>
          </p>
        </>
      ) : null}
      <p>{problem.signIn ? text.signIn.orToken : text.signIn.about}</p>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          rememberToken(token);
          void queries.invalidateQueries();
        }}
      >
        <FormGroup label={text.signIn.token} fieldId="token">
          <TextInput id="token" type="password" autoComplete="off" value={token} onChange={(_, value) => setToken(value)} />
        </FormGroup>
        <Button type="submit" variant={problem.signIn ? "secondary" : "primary"} isDisabled={!token}>
          {text.signIn.button}
        </Button>
      </Form>
    </div></PageSection>
  );
}
