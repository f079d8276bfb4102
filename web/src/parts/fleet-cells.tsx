// The devices of a fleet that is small enough: few as rows, more as a cell each, which tells its state by shape and colour
// and leads to the device. A group is one stop of the Tab key; arrow keys move inside.
import { Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { type KeyboardEvent, type ReactElement, useRef, useState } from "react";
import { Link } from "react-router";

import type { FleetCell, FleetSummary } from "../api/types";
import { FEW, grouped, moved } from "../model/cells";
import { STATES } from "../model/states";
import { text } from "../model/text";
import { StateLabel } from "./state";

export function FleetDevices({ fleet }: { fleet: FleetSummary }): ReactElement | null {
  const { cells } = fleet;
  if (!cells) {
    return null;
  }
  return (
    <section aria-label={text.fleet.devices} className="ew-stack">
      <Title headingLevel="h2">{text.fleet.devices}</Title>
      {cells.length <= FEW ? <Rows cells={cells} /> : <Cells cells={cells} groups={fleet.groups.map((each) => each.name)} />}
    </section>
  );
}

function Rows({ cells }: { cells: FleetCell[] }): ReactElement {
  return (
    <Table variant="compact" aria-label={text.fleet.devices}>
      <Thead>
        <Tr>
          {[text.name, text.state, text.version, text.fleet.group].map((each) => (
            <Th key={each}>{each}</Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {cells.map((each) => (
          <Tr key={each.name}>
            <Td dataLabel={text.name}>
              <Link to={`/devices/${each.name}`}>{each.name}</Link>
            </Td>
            <Td dataLabel={text.state}>
              <StateLabel state={each.state} />
            </Td>
            <Td dataLabel={text.version}>{each.version}</Td>
            <Td dataLabel={text.fleet.group}>{each.group}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function Cells({ cells, groups }: { cells: FleetCell[]; groups: string[] }): ReactElement {
  return (
    <>
      <p className="ew-legend">
        {STATES.map((state) => (
          <span key={state}>
            <Shape state={state} /> {text.states[state]}
          </span>
        ))}
      </p>
      <p>{text.cells.keys}</p>
      {grouped(cells, groups).map(([name, inside]) => (
        <Group key={name} name={name} cells={inside} />
      ))}
    </>
  );
}

function Group({ name, cells }: { name: string; cells: FleetCell[] }): ReactElement {
  const box = useRef<HTMLUListElement>(null);
  const [at, setAt] = useState(0);
  const reached = Math.min(at, cells.length - 1);
  const move = (event: KeyboardEvent) => {
    const next = moved(event.key, reached, cells.length);
    if (next !== null) {
      event.preventDefault();
      setAt(next);
      box.current?.querySelectorAll("a")[next]?.focus();
    }
  };
  return (
    <div>
      <Title headingLevel="h3" size="md">
        {text.cells.group(name, cells.length)}
      </Title>
      <ul ref={box} className="ew-cells" aria-label={name} onKeyDown={move}>
        {cells.map((each, index) => (
          <li key={each.name}>
            <Link
              className="ew-cell"
              to={`/devices/${each.name}`}
              tabIndex={index === reached ? 0 : -1}
              aria-label={text.cells.cell(each.name, text.states[each.state] ?? each.state, each.version)}
              title={text.cells.cell(each.name, text.states[each.state] ?? each.state, each.version)}
              onFocus={() => setAt(index)}
            >
              <Shape state={each.state} />
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Shape({ state }: { state: string }): ReactElement {
  return <span aria-hidden className={`ew-shape ew-shape-${state}`} />;
}
