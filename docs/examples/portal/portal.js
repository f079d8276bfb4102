"use strict";
// A portal with a button: it changes a custom resource through the console and shows what happens then.
// The token stays in this page. Start the console with: edgewright console --allow-origin ORIGIN-OF-THIS-PAGE

const field = (id) => document.getElementById(id).value;
const show = (text) => { document.getElementById("said").textContent = text; };
const credentials = () => ({ Authorization: `Bearer ${field("token")}` });

// PUT applies: the object is made where it is missing and changed where it differs, so a second click does no harm.
async function press(resource, body) {
  const url = `${field("console")}/api/v1/namespaces/${field("namespace")}/${resource}?fieldManager=portal`;
  const headers = { ...credentials(), "Content-Type": "application/json" };
  const answer = await fetch(url, { method: "PUT", headers, body: JSON.stringify(body) });
  const told = await answer.json();
  if (answer.ok) {
    show(`${told.kind} ${told.metadata.name} is at ${told.metadata.resourceVersion}`);
    follow(resource.split("/")[0]);
  } else {
    const fields = (told.errors ?? []).map((each) => ` ${each.pointer}: ${each.detail}`);
    show(`${told.title}: ${told.detail}${fields.join(";")}`);
  }
}

const followed = new Set();

// Server-sent events over fetch, because EventSource cannot send a token; after a cut it goes on where it was.
async function follow(kind) {
  if (followed.has(kind)) return;
  followed.add(kind);
  let last = "";
  for (;;) {
    try {
      const url = `${field("console")}/api/v1/stream?of=${kind}&namespace=${field("namespace")}`;
      const answer = await fetch(url, { headers: { ...credentials(), ...(last && { "Last-Event-ID": last }) } });
      if (!answer.ok) throw new Error((await answer.json()).detail);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const said = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
          if (said.id) last = said.id;
          if (said.event && said.data.includes("metadata")) add(said.event, JSON.parse(said.data));
        }
      }
    } catch (error) {
      show(`not live: ${error.message}`);
    }
    await new Promise((again) => setTimeout(again, 3000));
  }
}

function add(event, object) {
  const line = document.createElement("li");
  line.textContent = `${event} ${object.kind} ${object.metadata.name}: ${JSON.stringify(object.spec)}`;
  document.getElementById("events").append(line);
}

document.getElementById("shop").onclick = () =>
  press("minimarts.charts.samutup.com/minimart-sample", { spec: { replicaCount: Number(field("replicas")) } });

document.getElementById("flash").onclick = () =>
  press(`flashjobs/${field("device")}`, {
    spec: { uuid: [field("device")], firmware: `registry.example/firmware:${field("version")}`, version: field("version") },
  });
