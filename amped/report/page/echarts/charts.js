/* What pages draw with: the parts of Apache ECharts that pictures.js uses. ABOUT.json has the command that makes
   echarts.min.js of it. */
import * as core from "echarts/core";
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, GridComponent, LegendPlainComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";

core.use([
  BarChart, CustomChart, LineChart, ScatterChart, AriaComponent, GridComponent, LegendPlainComponent, MarkLineComponent,
  TooltipComponent, CanvasRenderer, SVGRenderer,
]);
export const init = core.init;
