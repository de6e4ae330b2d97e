// The equations of the simplex tab, for K categories. docs/equations.md has them with their numbers.

export const alphaOf = t => 1 - t;

// p_t = alpha x + (1 - alpha) pi, with pi uniform
export const noised = (x, alpha) => x.map(value => alpha * value + (1 - alpha) / x.length);

// A generator of uniform numbers with a seed (mulberry32): the figure stays the same while sliders move
export function uniforms(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let h = Math.imul(a ^ (a >>> 15), a | 1);
    h ^= h + Math.imul(h ^ (h >>> 7), h | 61);
    return (((h ^ (h >>> 14)) >>> 0) + 0.5) / 4294967296;
  };
}

const normal = u => Math.sqrt(-2 * Math.log(u())) * Math.cos(2 * Math.PI * u());

// log of a gamma variate (Marsaglia and Tsang 2000 at shape + 1, times U^(1/shape)), however small the shape
export function logGamma(shape, u) {
  const d = shape + 2 / 3, c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = normal(u), base = 1 + c * x;
    if (base <= 0) continue;
    const v = base ** 3;
    if (Math.log(u()) < 0.5 * x * x + d * (1 - v + Math.log(v))) return Math.log(d * v) + Math.log(u()) / shape;
  }
}

// w ~ Dir(concentration)
export function dirichlet(concentration, u) {
  const logs = concentration.map(value => logGamma(Math.max(value, 1e-10), u)), top = Math.max(...logs);
  const parts = logs.map(value => Math.exp(value - top)), sum = parts.reduce((a, b) => a + b, 0);
  return parts.map(value => value / sum);
}

// The density of Dir(concentration) at w, without its constant, as a logarithm
export const logDensity = (w, concentration) => w.reduce((sum, value, k) => sum + (concentration[k] - 1) * Math.log(value), 0);

export function categorical(p, u) {
  let rest = u() * p.reduce((a, b) => a + b, 0);
  for (let k = 0; k < p.length; k++) if ((rest -= p[k]) < 0) return k;
  return p.length - 1;
}

// w_t ~ Dir(eta p) by stick breaking: atoms on draws from p with weights that use up a stick of length one
export function atoms(p, eta, u, least = 1e-4) {
  const made = [];
  for (let left = 1; left > least && made.length < 400;) {
    const rest = eta > 0 ? u() ** (1 / eta) : 0, weight = left * (1 - rest);
    made.push({ category: categorical(p, u), weight });
    left *= rest;
  }
  return made;
}

// r_{s|t}(x_hat, e_k): the law of z_s given that the chain is anchored at category k at time t
export function bridge(x, k, s, t) {
  const alphaS = alphaOf(s), alphaT = alphaOf(t), keep = alphaS > 0 ? alphaT / alphaS : 1;
  const pS = noised(x, alphaS), pT = noised(x, alphaT);
  return pS.map((value, j) => ((j === k ? keep : 0) + (1 - keep) / x.length) * value / pT[k]);
}

// r_{s|t}(x_hat, w) is linear in w
export function bridgeFrom(x, w, s, t) {
  const from = w.map((_, k) => bridge(x, k, s, t));
  return w.map((_, j) => w.reduce((sum, weight, k) => sum + weight * from[k][j], 0));
}
