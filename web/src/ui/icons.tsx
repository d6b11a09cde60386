/** Icons of one family: 16 units, one stroke, the colour of the text. */

const PATHS = {
  overview: "M2.5 13.5v-4M6.2 13.5v-8M9.8 13.5V8M13.5 13.5V2.5",
  tasks: "M2.5 4h1M2.5 8h1M2.5 12h1M6 4h7.5M6 8h7.5M6 12h7.5",
  lanes: "M2 4.5h12M2 11.5h12M4.5 8h2M9.5 8h2",
  workers: "M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.01M5.5 11h.01",
  cron: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.3",
  audit: "M4 2.5h6l2.5 2.5v8.5H4zM6.5 7.5h4M6.5 10.5h4",
  kinds: "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5l3 3",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2v9.6l7.5-4.8z",
  stop: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  up: "M8 13V3.5M4 7.5l4-4 4 4",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  moon: "M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6z",
  system: "M2.5 3h11v7.5h-11zM6 13.5h4M8 10.5v3",
  leave: "M9.5 3H3.5v10h6M7 8h6.5M11.5 5.5L14 8l-2.5 2.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  settings: "M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M10 3.5v3M6 9.5v3",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  left: "M10 3.5L5.5 8l4.5 4.5",
  right: "M6 3.5L10.5 8 6 12.5",
  down: "M3.5 6L8 10.5 12.5 6",
  check: "M3 8.5l3.2 3.2L13 5",
  alert: "M8 2.5l6 11H2zM8 6.5v3.2M8 11.6h.01",
  trash: "M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9",
  download: "M8 2.5v7.500M4.500 7L8 10.500 11.500 7M3 13.500h10",
  link: "M6.5 9.5l3-3M7 4.5l1.5-1.5a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5L7.500 13A3 3 0 0 1 3 8.500L4.500 7",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
