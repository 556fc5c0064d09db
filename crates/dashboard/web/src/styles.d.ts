// esbuild bundles imported CSS files into app.css.
declare module "*.css";
