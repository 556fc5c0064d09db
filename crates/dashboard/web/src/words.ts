// Numbers, times and addresses as people read them.

import type { Count, Forecast } from "./api";

export const number = (count: Count | null | undefined): string => {
  if (count === null || count === undefined) return "–";
  const big = BigInt(count);
  if (big < 10n ** 12n) return Number(big).toLocaleString("en");
  const exponent = big.toString().length - 1;
  return `about ${(Number(big) / 10 ** exponent).toFixed(1)} × 10^${exponent}`;
};

/** For an axis of counts: only whole numbers have a label. */
export const whole = (value: number): string => (Number.isInteger(value) ? number(value) : "");

export const isZero = (count: Count | null | undefined): boolean => BigInt(count ?? 0) === 0n;

/** From 0 to 1, rounded down to four digits, so it is never 1 for less than all. */
export const share = (part: Count | null | undefined, all: Count | null | undefined): number => {
  const whole = BigInt(all ?? 0);
  if (whole === 0n) return 0;
  return Number((BigInt(part ?? 0) * 10000n) / whole) / 10000;
};

export const span = (seconds: number): string => {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
};

export const since = (time: string | null | undefined, now = Date.now()): string =>
  time ? span((now - Date.parse(time)) / 1000) : "–";

export const forecast = (told: Forecast): string => {
  switch (told.kind) {
    case "unknown":
      return "not known yet";
    case "full":
      return "it is full";
    case "steady":
      return "not within a month";
    case "runsOut":
      return `in about ${span(told.seconds)}`;
  }
};

/** The parts of `10.64.0.0/16`. */
export const parse = (cidr: string): { address: string; length: number; bits: number } => {
  const [address, length] = cidr.split("/");
  return { address, length: Number(length), bits: address.includes(":") ? 128 : 32 };
};

export const toNumber = (address: string): bigint => {
  if (!address.includes(":")) {
    return address.split(".").reduce((sum, part) => (sum << 8n) | BigInt(part), 0n);
  }
  const [head, tail] = address.split("::");
  const groups = (text: string | undefined) => (text ? text.split(":") : []);
  const [front, back] = [groups(head), groups(tail)];
  const zeros = Array(address.includes("::") ? 8 - front.length - back.length : 0).fill("0");
  const all = [...front, ...zeros, ...back];
  return all.reduce((sum, part) => (sum << 16n) | BigInt(`0x${part}`), 0n);
};

export const toAddress = (value: bigint, bits: number): string => {
  if (bits === 32) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join(".");
  const groups = Array.from({ length: 8 }, (_, i) =>
    ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16),
  );
  // The longest run of zeros is left out, as is usual.
  const text = groups.join(":");
  const runs = [...text.matchAll(/(?:^|:)0(?::0)+(?=:|$)/g)];
  const longest = runs.sort((one, other) => other[0].length - one[0].length)[0];
  if (longest === undefined) return text;
  const [before, after] = [
    text.slice(0, longest.index),
    text.slice(longest.index + longest[0].length + 1),
  ];
  return `${before}::${after}`;
};

/** The CIDR of a cell of a map's window. */
export const cellOf = (window: string, cellLength: number, index: number): string => {
  const { address, bits } = parse(window);
  const first = toNumber(address) + (BigInt(index) << BigInt(bits - cellLength));
  return `${toAddress(first, bits)}/${cellLength}`;
};
