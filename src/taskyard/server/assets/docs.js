// Shows openapi.json. Everything is put in as text, never as markup.
"use strict";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}

function typeOf(schema, document) {
  if (!schema) return "anything";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.oneOf || schema.anyOf) {
    return (schema.oneOf || schema.anyOf).map((one) => typeOf(one, document)).join(" | ");
  }
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.type === "array") return `[${typeOf(schema.items, document)}]`;
  return Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "anything";
}

function resolved(schema, document) {
  if (schema && schema.$ref) return document.components.schemas[schema.$ref.split("/").pop()];
  return schema;
}

function fields(schema, document) {
  const shape = resolved(schema, document);
  if (!shape || !shape.properties) return element("pre", {}, typeOf(schema, document));
  const body = element("tbody");
  for (const [name, one] of Object.entries(shape.properties)) {
    const needed = (shape.required || []).includes(name) ? "" : " (optional)";
    body.append(element("tr", {},
      element("td", {}, element("code", {}, name), needed),
      element("td", {}, typeOf(one, document)),
      element("td", {}, one.description || "")));
  }
  return element("table", {}, body);
}

function operation(path, method, one, document) {
  const inside = element("div", { class: "inside" });
  if (one.description) inside.append(element("p", {}, one.description));
  if (one.parameters && one.parameters.length) {
    const body = element("tbody");
    for (const parameter of one.parameters) {
      body.append(element("tr", {},
        element("td", {}, element("code", {}, parameter.name), ` in ${parameter.in}`),
        element("td", {}, typeOf(parameter.schema, document))));
    }
    inside.append(element("h4", {}, "Parameters"), element("table", {}, body));
  }
  const sent = one.requestBody?.content?.["application/json"]?.schema;
  if (sent) inside.append(element("h4", {}, `Body: ${typeOf(sent, document)}`), fields(sent, document));
  for (const [status, answer] of Object.entries(one.responses || {})) {
    const schema = Object.values(answer.content || {})[0]?.schema;
    inside.append(element("h4", {}, `${status}: ${schema ? typeOf(schema, document) : answer.description || ""}`));
    if (schema) inside.append(fields(schema, document));
  }
  const made = element("details", { "data-words": `${method} ${path} ${one.summary || ""}`.toLowerCase() },
    element("summary", {},
      element("b", { class: `method ${method}` }, method.toUpperCase()),
      element("code", {}, path),
      element("span", {}, one.summary || "")),
    inside);
  return made;
}

async function show() {
  const answer = await fetch("openapi.json");
  const description = await answer.json();
  document.getElementById("about").textContent = `Version ${description.info.version}`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, one] of Object.entries(methods)) {
      if (!one.responses) continue;
      const tag = (one.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(path, method, one, description));
    }
  }
  const main = document.getElementById("routes");
  for (const [tag, operations] of groups) {
    main.append(element("section", {}, element("h2", {}, tag), ...operations));
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const one of main.querySelectorAll("details")) one.hidden = !one.dataset.words.includes(wanted);
  });
}

show();
